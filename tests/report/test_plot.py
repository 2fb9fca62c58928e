"""Pictures: every format and kind of file, and clear words where one cannot be drawn."""

import subprocess
import sys

import networks as nw
import numpy as np
import pytest
import soundfile

from dac_rocm.cli.main import main
from dac_rocm.errors import BackendError, OutputError
from dac_rocm.pipeline import encode_file
from dac_rocm.report.plot import plot_file

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
RATE = 16_000


@pytest.fixture
def clip(tmp_path):
    t = np.arange(RATE) / RATE
    audio = 0.3 * np.sin(2 * np.pi * 300 * t * (1 + t))
    soundfile.write(tmp_path / "a $x_1$ 音.wav", np.stack([audio, audio[::-1]], 1), RATE)
    return tmp_path / "a $x_1$ 音.wav"


@pytest.mark.parametrize("form", MAGIC)
def test_every_format(clip, tmp_path, form):
    target = tmp_path / f"p.{form.upper()}"
    plot_file(nw.build("odd"), clip, target, n_codebooks=2)
    assert target.read_bytes().startswith(MAGIC[form])


def words(svg):
    """Return what an SVG of matplotlib says: each text stands before its glyphs as a comment."""
    return svg.read_text(encoding="utf-8")


@pytest.mark.parametrize("network, what", [("odd", "codes"), ("mova", "latents")])
def test_what_is_drawn(clip, tmp_path, network, what):
    model = nw.build(network)
    plot_file(model, clip, tmp_path / "p.svg")
    drawn = words(tmp_path / "p.svg")
    for title in ("waveform", "log-mel spectrogram, original", "difference", f"{what}, 2 rows"):
        assert title in drawn
    assert drawn.count("<image") >= 4
    encode_file(model, clip, tmp_path / "a.dacz")
    plot_file(model, tmp_path / "a.dacz", tmp_path / "q.svg")
    drawn = words(tmp_path / "q.svg")
    assert "log-mel spectrogram, decoded" in drawn and f"{what}, 2 rows" in drawn
    assert "original" not in drawn


def test_silence_and_a_single_sample_are_drawn(tmp_path):
    for length in (1, RATE):
        soundfile.write(tmp_path / f"{length}.wav", np.zeros(length), RATE)
        for network in ("odd", "mova"):
            target = tmp_path / f"{network}{length}.png"
            plot_file(nw.build(network), tmp_path / f"{length}.wav", target)
            assert target.stat().st_size > 1000


def test_another_suffix_is_refused(clip, tmp_path):
    with pytest.raises(OutputError, match=r"\.png, \.svg or \.pdf"):
        plot_file(nw.build("odd"), clip, tmp_path / "p.jpg")


def test_without_matplotlib_the_extra_is_named(clip, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BackendError, match=r"dac_rocm\[plot\]"):
        plot_file(nw.build("odd"), clip, tmp_path / "p.png")
    assert main(["plot", str(clip), "-o", str(tmp_path / "p.png")]) == 1
    said = capsys.readouterr().err
    assert "dac_rocm[plot]" in said and said.count("\n") == 1
    assert not (tmp_path / "p.png").exists()


def test_matplotlib_is_not_imported_before_it_is_needed():
    code = "import sys, dac_rocm.report; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_draws_each_file_and_goes_on_after_a_bad_one(
    clip, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    nw.build("odd").save_pretrained("codec")
    encode_file(nw.build("odd"), clip, "coded.dacz")
    (tmp_path / "bad.wav").write_text("no audio")
    files = [clip.name, "bad.wav", "coded.dacz"]
    assert main(["plot", *files, "--model", "codec", "--format", "svg"]) == 1
    said = capsys.readouterr().err
    assert "error: bad.wav" in said and "coded.dacz -> coded.svg" in said
    assert clip.with_suffix(".svg").exists() and not (tmp_path / "bad.svg").exists()
    assert main(["plot", "coded.dacz", "--model", "codec", "--format", "svg"]) == 1
    assert "force" in capsys.readouterr().err
    assert main(["plot", "coded.dacz", "--model", "codec", "-o", "coded.svg", "--force"]) == 0


def test_one_output_is_for_one_file(capsys):
    assert main(["plot", "a.wav", "b.wav", "-o", "p.png"]) == 2
    assert "one file" in capsys.readouterr().err
