"""The parts of a report as HTML: what it is about, each clip, the models and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dac_rocm.report.chart import rate_chart
from dac_rocm.report.clips import Clip, Version, label_of
from dac_rocm.report.markup import Column, facts, number, table
from dac_rocm.report.sound import FLOAT, exact_bits, sound_uri
from dac_rocm.report.views import views

COLUMNS = (
    Column("kbps", "kbps", 2),
    Column("encoded_bytes", ".dacz, kB", 1, 1e-3),
    Column("encoded_kbps", ".dacz, kbps", 2),
    Column("si_sdr_db", "SI-SDR, dB", 2),
    Column("log_mel_db", "log-mel, dB", 2),
    Column("stft_distance", "STFT", 3),
    Column("loudness_difference_db", "loudness, dB", 2),
    Column("stoi", "STOI", 3),
    Column("times_real_time", "× real time", 1),
)
CHARTS = {
    "si_sdr_db": "SI-SDR in dB (more is better)",
    "log_mel_db": "log-mel distance in dB (less is better)",
}
FEW = 4
"""So many clips at most are named in the head of the page."""


def about(data: Mapping[str, Any]) -> str:
    """Return the sentence under the title."""
    inputs, models = data["inputs"], [model["name"] for model in data["models"]]
    settings = len(data["rows"]) // len(inputs)
    clips = f"{len(inputs)} clip{'s' * (len(inputs) != 1)}"
    return escape(
        f"{clips}, {settings} setting{'s' * (settings != 1)} of {', '.join(models)}. "
        f"Made by dac_rocm {data['dac_rocm']} on {data['made'][:10]}."
    )


def contents(clips: Sequence[str]) -> str:
    """Return links to the clips, by name."""
    return "".join(
        f'<li><a href="#clip{i}"><bdi>{escape(name)}</bdi></a></li>'
        for i, name in enumerate(clips, 1)
    )


def summary(data: Mapping[str, Any]) -> str:
    """Return the charts, and the means where there are several clips."""
    several = len(data["inputs"]) > 1
    rows = data["means"] if several else data["rows"]
    charts = "".join(rate_chart(rows, measure, title) for measure, title in CHARTS.items())
    means = (
        table("Means over all clips", COLUMNS, [(label_of(r), r) for r in rows]) if several else ""
    )
    return f'<div class="charts">{charts}</div>{means}'


def clip_section(index: int, clip: Clip) -> str:
    """Return everything about one clip.

    Args:
        index: Its number in the page, from 1.
        clip: It.
    """
    players = "".join(
        _player(i, version, clip.sample_rate, _bits(clip, i))
        for i, version in enumerate(clip.versions)
    )
    rows = [(version.label, version.row) for version in clip.versions[1:]]
    name = escape(clip.name)
    return (
        f'<section class="clip" id="clip{index}" data-seconds="{clip.seconds!r}" '
        f'aria-labelledby="name{index}"><h2 id="name{index}"><bdi>{name}</bdi></h2>'
        f"<p>{_told(clip.facts)}</p>"
        f'<ol class="versions">{players}</ol>{_blind(index, clip)}'
        f"{table(f'Scores of {clip.name}', COLUMNS, rows)}"
        f'{TOOLS}<div class="views">{views(clip)}</div></section>'
    )


def _told(about: Mapping[str, Any]) -> str:
    channels = about["channels"]
    return (
        f"{number(about['seconds'], 2)} s, {number(about['sample_rate'], 0)} Hz, "
        f"{number(channels, 0)} channel{'s' * (channels != 1)}, {escape(about['subtype'])}, "
        f"{number(about['file_bytes'], 1, 1e-3)} kB, {number(about['file_kbps'], 1)} kbps"
    )


def _bits(clip: Clip, index: int) -> int:
    """Choose the bits of the audio in the page: the original exactly, the others not coarser.

    What is decoded has no exact form but floats; 24 bits are below what can be heard.
    """
    exact = exact_bits(clip.versions[0].audio)
    return exact if index == 0 else min(exact, FLOAT - 8)


def _player(index: int, version: Version, sample_rate: int, bits: int) -> str:
    name, source = escape(version.label), sound_uri(version.audio, sample_rate, bits)
    return (
        f'<li><button type="button" class="pick scripted" aria-pressed="{_yes(index == 0)}" '
        f'aria-label="{index + 1}: listen to {name}">{index + 1}</button>'
        f'<span class="label">{name}{_rate(version)}</span>'
        f'<audio controls preload="metadata" aria-label="{name}" src="{source}"></audio></li>'
    )


def _rate(version: Version) -> str:
    if version.row.get("kbps") is None:
        return ""
    return f' <span class="hint">{number(version.row["kbps"], 2)} kbps</span>'


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _blind(index: int, clip: Clip) -> str:
    """Return the controls of the blind test: which of two versions is X?"""
    options = [escape(f"{i}. {v.label}") for i, v in enumerate(clip.versions, 1)]

    def select(letter: str, chosen: int) -> str:
        listed = "".join(
            f'<option value="{i}"{" selected" * (i == chosen)}>{option}</option>'
            for i, option in enumerate(options)
        )
        return f"<label>{letter} <select class={letter.lower()}>{listed}</select></label>"

    return BLIND.format(a=select("A", 0), b=select("B", 1), title=f"blind{index}")


BLIND = (
    '<details class="blind scripted"><summary>Blind test: is X the same as A or as B?</summary>'
    '<div class="setup">{a}{b}<button type="button" class="start">Start</button></div>'
    '<div class="trial" hidden>'
    '<div role="group" aria-label="Listen">'
    '<button type="button" class="play" data-to="0">A</button>'
    '<button type="button" class="play" data-to="1">B</button>'
    '<button type="button" class="play" data-to="2">X</button></div>'
    '<div role="group" aria-label="Answer">'
    '<button type="button" class="answer" data-is="0">X is A</button>'
    '<button type="button" class="answer" data-is="1">X is B</button></div>'
    '<button type="button" class="stop">End the test</button></div>'
    '<output class="score" id="{title}"></output></details>'
)
TOOLS = (
    '<div class="tools scripted" role="group" aria-label="Part of the time that is shown">'
    '<button type="button" data-do="in" aria-label="Zoom in">+</button>'
    '<button type="button" data-do="out" aria-label="Zoom out">−</button>'
    '<button type="button" data-do="earlier" aria-label="Earlier">←</button>'
    '<button type="button" data-do="later" aria-label="Later">→</button>'
    '<button type="button" data-do="whole">Whole</button>'
    '<label><input type="checkbox" class="loop"> repeat what is shown</label>'
    '<output class="shown"></output></div>'
)


def models_section(data: Mapping[str, Any]) -> str:
    """Return the facts of each model."""
    return "".join(
        f"<h3>{escape(model['name'])}</h3>"
        + facts({k: v for k, v in model.items() if k != "name" and v not in (None, [], {})})
        for model in data["models"]
    )
