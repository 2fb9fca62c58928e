"""Every error that dac_rocm raises on purpose.

    DacError
      ConfigError (ValueError)      a configuration that no network can have
      ShapeError (ValueError)       a tensor, length or index of the wrong shape, type or range
      AudioError (ValueError)       audio that cannot be read, or must not be written
      SourceError (OSError)         weights or input that cannot be found or reached
      BackendError (RuntimeError)   a device, kernel or optional package that cannot do the work
      OutputError (OSError)         a target that cannot or must not be written
      WeightsError (ValueError)     a checkpoint that cannot be used
        UnknownLayoutError          names that belong to no layout we know, or to another network
        WeightsMismatchError        missing, unexpected or misshapen tensors
        UnsafeWeightsError          a checkpoint that would have to run code
      ContainerError (ValueError)   an encoded file that cannot be used
        UnknownContainerError       neither `.dacz` nor `.dac`
        UnsupportedVersionError     a version this package does not know
        TruncatedFileError          the file ends too early
        UnsafeFileError             a file that would have to run code
        ChecksumError               bytes that do not match their checksum

A message has three parts: what was found, what was expected, what to do. This room must not
import anything.
"""


class DacError(Exception):
    """Base of every error that dac_rocm raises on purpose."""


class ConfigError(DacError, ValueError):
    """A configuration that no network can have."""


class ShapeError(DacError, ValueError):
    """A tensor, length or index of the wrong shape, type or range."""


class AudioError(DacError, ValueError):
    """Audio that cannot be read, or must not be written."""


class SourceError(DacError, OSError):
    """Weights or input that cannot be found or reached."""


class BackendError(DacError, RuntimeError):
    """A device, kernel or optional package that cannot do the work."""


class OutputError(DacError, OSError):
    """A target that cannot or must not be written."""


class WeightsError(DacError, ValueError):
    """A checkpoint that cannot be used."""


class UnknownLayoutError(WeightsError):
    """Tensor names that belong to no layout we know, or to another network."""


class WeightsMismatchError(WeightsError):
    """Missing, unexpected or misshapen tensors."""


class UnsafeWeightsError(WeightsError):
    """A checkpoint that would have to run code."""


class ContainerError(DacError, ValueError):
    """An encoded file that cannot be used."""


class UnknownContainerError(ContainerError):
    """A file that is neither `.dacz` nor `.dac`."""


class UnsupportedVersionError(ContainerError):
    """A container version that this package does not know."""


class TruncatedFileError(ContainerError):
    """An encoded file that ends too early."""


class UnsafeFileError(ContainerError):
    """An encoded file that would have to run code."""


class ChecksumError(ContainerError):
    """Bytes that do not match their checksum."""
