"""The pictures of a clip in a page: waveforms and spectrograms on one axis of time."""

from __future__ import annotations

from html import escape

from dac_rocm.report.clips import Clip, Version
from dac_rocm.report.png import difference_colours, level_colours, picture_uri
from dac_rocm.report.spectra import (
    DIFFERENCE_DB,
    SHOWN_DB,
    Levels,
    Range,
    difference,
    envelope,
    hz_ticks,
    shown_range,
    spectrogram,
    ticks,
    to_unit,
)

LEGEND = (
    f"Spectrograms: bright is loud, over {SHOWN_DB:.0f} dB; heights are Hz on a mel scale. "
    "Difference: orange where the decoded one has more, blue where it has less; full colour at "
    f"{DIFFERENCE_DB:.0f} dB."
)


def views(clip: Clip) -> str:
    """Return every picture of a clip, under one axis of time."""
    original = spectrogram(clip.versions[0].audio, clip.sample_rate)
    shown = shown_range(original)
    figures = [
        _version(clip, version, i, original, shown) for i, version in enumerate(clip.versions)
    ]
    return f'{"".join(figures)}<p class="hint">{LEGEND}</p>'


def _version(clip: Clip, version: Version, index: int, original: Levels, shown: Range) -> str:
    levels = spectrogram(version.audio, clip.sample_rate) if index else original
    name = escape(version.label)
    pictures = [
        _lens("wave", _waveform(version, f"Waveform of {name}"), ""),
        _lens("mel", _levels(levels, shown, f"Spectrogram of {name}"), _heights(clip.sample_rate)),
    ]
    if index:
        image = _difference(
            difference(original, levels, shown), f"Difference of {name} from the original"
        )
        pictures.append(_lens("mel diff", image, _heights(clip.sample_rate)))
    return (
        f'<figure class="version"><figcaption>{index + 1}. {name}</figcaption>{"".join(pictures)}'
        f'<div class="seconds" aria-hidden="true">{_seconds(clip.seconds)}</div></figure>'
    )


def _lens(kind: str, content: str, heights: str) -> str:
    """Return a window on a picture, which the script widens and shifts."""
    return (
        f'<div class="row"><div class="hz" aria-hidden="true">{heights}</div>'
        f'<div class="lens {kind}"><div class="layer">{content}<i class="head"></i></div></div>'
        "</div>"
    )


def _heights(sample_rate: int) -> str:
    return "".join(
        f'<span style="bottom:{100 * min(0.95, max(0.05, height)):.1f}%">{label}</span>'
        for height, label in hz_ticks(sample_rate, 0.13)
    )


def _seconds(seconds: float) -> str:
    return "".join(
        f'<span style="left:{100 * t / seconds:.2f}%">{t:g}</span>' for t in ticks(0, seconds)
    )


def _waveform(version: Version, alt: str) -> str:
    """Return the samples' envelope as a filled shape; full scale is the height."""
    low, high = envelope(version.audio).clip(-1, 1)
    there = [f"{x} {1 - y:.3f}" for x, y in enumerate(high)]
    back = [f"{x} {1.006 - y:.3f}" for x, y in reversed(list(enumerate(low)))]
    return (
        f'<svg viewBox="0 0 {max(1, len(high) - 1)} 2" preserveAspectRatio="none" role="img" '
        f'aria-label="{alt}"><path d="M{"L".join([*there, *back])}Z"/></svg>'
    )


def _levels(levels: Levels, shown: Range, alt: str) -> str:
    return _image(picture_uri(to_unit(levels, *shown), level_colours()), alt)


def _difference(change: Levels, alt: str) -> str:
    unit = to_unit(change, -DIFFERENCE_DB, DIFFERENCE_DB)
    return _image(picture_uri(unit, difference_colours()), alt)


def _image(uri: str, alt: str) -> str:
    return f'<img alt="{alt}" src="{uri}">'
