"""Every layout gives the numbers of the library that wrote it: first difference first."""

from __future__ import annotations

import pytest
import torch
from kits import Clip, clips, load
from torch import Tensor, nn
from torch.nn import functional as F

from dac_rocm.config import GaussianConfig
from dac_rocm.nn.blocks import Decoder, Encoder
from dac_rocm.nn.gaussian import GaussianBottleneck
from dac_rocm.nn.rvq import ResidualVectorQuantize
from dac_rocm.weights import Checkpoint

CODES_GAP = 1e-4
"""Below this squared distance two entries count as tied."""
# What transformers calls the tensors of Descript's kits.
THEIRS = {
    "z": "quantized_representation",
    "codes": "audio_codes",
    "latents": "projected_latents",
    "audio_from_z": "audio_values",
    "audio_from_codes": "audio_values_from_codes",
}


def filled(module: nn.Module, checkpoint: Checkpoint, prefix: str) -> nn.Module:
    tensors = checkpoint.tensors
    state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    module.load_state_dict(state, strict=True)
    return module.eval()


def network(checkpoint: Checkpoint) -> tuple[nn.Module, nn.Module, nn.Module]:
    config = checkpoint.config
    encoder = filled(Encoder(config), checkpoint, "encoder.")
    decoder = filled(Decoder(config), checkpoint, "decoder.")
    width = config.encoder.out_channels
    if isinstance(config.bottleneck, GaussianConfig):
        made = GaussianBottleneck(width, config.decoder.in_channels, config.bottleneck)
    else:
        made = ResidualVectorQuantize(width, config.bottleneck)
    bottleneck = filled(made, checkpoint, "quantizer.")
    for quantizer in getattr(bottleneck, "quantizers", []):
        quantizer.normalise()
    return encoder, bottleneck, decoder


def padded(audio: Tensor, checkpoint: Checkpoint) -> Tensor:
    short = -audio.shape[-1] % checkpoint.config.hop_length
    reflects = checkpoint.config.input_padding == "reflect" and short
    return F.pad(audio, (0, short), mode="reflect" if reflects else "constant")


def assert_near(name: str, ours: Tensor, theirs: Tensor, atol: float) -> None:
    assert ours.shape == theirs.shape, name
    worst = (ours - theirs).abs().max().item()
    assert worst <= atol, f"{name}: {worst:.2e} > {atol:.1e}"


@pytest.mark.parametrize("clip", clips("descript", "transformers"))
@torch.no_grad()
def test_codes(clip: Clip) -> None:
    checkpoint, stored = load(clip.checkpoint), clip.load()
    encoder, quantizer, decoder = network(checkpoint)
    own = "codes" in stored
    theirs = {name: stored[name if own else THEIRS[name]] for name in THEIRS}
    atol = {name: clip.tolerances.get(name if own else THEIRS[name], 2e-5) for name in THEIRS}

    z_e = encoder(padded(stored["audio"], checkpoint))
    assert_near("z_e", z_e, stored["z_e"], clip.tolerances["z_e"])

    quantized = quantizer(z_e)
    sure = (stored["codes_gap"] > CODES_GAP).cumprod(1).bool()
    assert (quantized.codes == theirs["codes"])[sure].all()
    same = (quantized.codes == theirs["codes"]).all(1)
    assert_near("latents", quantized.latents, theirs["latents"], atol["latents"])
    for item, frames in enumerate(same):
        assert_near("z", quantized.z[item, :, frames], theirs["z"][item, :, frames], atol["z"])

    z = quantizer.from_codes(theirs["codes"].long())
    for name, made in (("audio_from_codes", decoder(z)), ("audio_from_z", decoder(theirs["z"]))):
        wanted = theirs[name] if own else theirs[name][:, None]
        assert_near(name, made, wanted, atol[name])


@pytest.mark.parametrize("clip", clips("descript", "transformers"))
@torch.no_grad()
def test_fewer_codebooks(clip: Clip) -> None:
    checkpoint, stored = load(clip.checkpoint), clip.load()
    endings = [e for e in ("_nq1", "_nqhalf") if any(name.endswith(e) for name in stored)]
    encoder, quantizer, decoder = network(checkpoint)
    z_e = encoder(padded(stored["audio"], checkpoint))
    for ending in endings:
        codes = stored.get(f"codes{ending}", stored.get(f"audio_codes{ending}"))
        z = stored.get(f"z{ending}", stored.get(f"quantized_representation{ending}"))
        audio = stored.get(f"audio{ending}", stored.get(f"audio_values{ending}"))
        quantized = quantizer(z_e, codes.shape[1])
        assert torch.equal(quantized.codes, codes.long())
        assert_near(f"z{ending}", quantized.z, z, 5e-5)
        assert_near(f"audio{ending}", decoder(z).reshape(audio.shape), audio, 3e-5)


@pytest.mark.parametrize("clip", clips("mova", "hunyuan", "dacvae", "oobleck"))
@torch.no_grad()
def test_latents(clip: Clip) -> None:
    checkpoint, stored = load(clip.checkpoint), clip.load()
    encoder, bottleneck, decoder = network(checkpoint)
    z_e = encoder(padded(stored["audio"], checkpoint))
    if "z_e" in stored:
        assert_near("z_e", z_e, stored["z_e"], clip.tolerances["z_e"])
    spread = bottleneck.in_proj(z_e).chunk(2, dim=1)[1]
    gaussian = bottleneck(z_e)
    assert_near("mean", gaussian.mean, stored["mean"], clip.tolerances["mean"])
    if "logvar" in stored:
        assert_near("logvar", spread.clamp(-30, 20), stored["logvar"], clip.tolerances["logvar"])
    if "scale" in stored:
        assert_near("scale", spread, stored["scale"], clip.tolerances.get("scale", 1e-4))
    if "std" in stored:
        torch.testing.assert_close(gaussian.std, stored["std"], rtol=1e-3, atol=1e-4)
    if "sample" in stored:
        sample = stored["mean"] + stored["std"] * stored["sample_noise"]
        torch.testing.assert_close(sample, stored["sample"], rtol=1e-5, atol=1e-4)
    name = "audio_clean_from_mean" if "audio_clean_from_mean" in stored else "audio_from_mean"
    audio = decoder(bottleneck.decode(stored["mean"]))
    assert_near(name, audio, stored[name], clip.tolerances[name])
