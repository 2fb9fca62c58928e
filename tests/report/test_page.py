"""The page: its numbers are those of `evaluate`, it is whole, and names do no harm."""

import base64
import dataclasses
import hashlib
import html.parser
import io
import json
import re
from importlib.resources import files

import networks as nw
import numpy as np
import pytest
import soundfile

from dac_rocm import DAC
from dac_rocm.cli.main import main
from dac_rocm.errors import AudioError, OutputError, ShapeError
from dac_rocm.report import chart, clips, page
from dac_rocm.roundtrip import round_trip

RATE = 16_000
VOID = {"meta", "link", "img", "input", "br"}


@pytest.fixture(scope="module")
def models():
    return {"odd": nw.build("odd"), "vae": nw.build("mova")}


def noise(seconds=1.0, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    audio = 0.2 * rng.standard_normal((int(seconds * RATE), channels))
    return audio * np.sin(np.linspace(0, 20, len(audio)))[:, None]


def save(path, audio=None, subtype="PCM_16"):
    soundfile.write(path, noise() if audio is None else audio, RATE, subtype)
    return path


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: every element is closed in order."""

    def __init__(self, path):
        super().__init__()
        self.open, self.elements, self.numbers, self.texts = [], [], [], {}
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "data":
            self.numbers.append(float(dict(attrs)["value"]))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def attributes(self, tag, name):
        return [attrs[name] for found, attrs in self.elements if found == tag and name in attrs]


def numbers_in(data):
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from numbers_in(value)
    elif isinstance(data, int | float):
        yield float(data)


def write(tmp_path, inputs, models, **options):
    data = page.write_report(inputs, models, tmp_path / "r.html", **options)
    json.dumps(data, allow_nan=False)
    return data, Reader(tmp_path / "r.html")


def test_numbers_are_those_of_evaluate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    nw.build("odd").save_pretrained("codec")
    for i, channels in enumerate((1, 2)):
        save(f"{i}.wav", noise(0.7, channels, i))
    common = ["0.wav", "1.wav", "--n-codebooks", "1,3", "--json"]
    assert main(["report", *common, "--models", "codec", "-o", "r.html"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(["evaluate", *common, "--model", "codec"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(report["rows"]) == 4
    for mine, theirs in zip(report["rows"], rows, strict=True):
        theirs.pop("times_real_time")  # how fast, not how good
        assert theirs == {name: mine[name] for name in theirs}
    shown = Reader(tmp_path / "r.html").numbers
    assert set(shown) <= set(numbers_in(report))
    told = {row[k] for row in report["rows"] for k in ("si_sdr_db", "log_mel_db", "encoded_bytes")}
    assert told <= set(shown) and len(told) == 12
    assert report["bytes"] == (tmp_path / "r.html").stat().st_size


def test_every_number_of_a_clip_is_in_json(tmp_path, models):
    inputs = [save(tmp_path / "a.wav"), save(tmp_path / "b.wav", noise(0.6, seed=1))]
    data, read = write(tmp_path, inputs, models, machine={"cpu": "one"})
    assert set(read.numbers) <= set(numbers_in(data))
    assert {row["model"] for row in data["means"]} == {"odd", "vae"}
    assert "one" in read.texts["dd"]


def test_players_hold_the_original_exactly_and_every_version(tmp_path, models):
    path = save(tmp_path / "a.wav", subtype="PCM_24")
    data, read = write(tmp_path, [path], models, n_codebooks=[1, 2])
    sources = read.attributes("audio", "src")
    assert len(sources) == 1 + len(data["rows"]) == 4
    audio = [soundfile.read(io.BytesIO(base64.b64decode(s.split(",")[1])))[0] for s in sources]
    original = soundfile.read(path)[0]
    assert np.array_equal(audio[0], original)
    trip = round_trip(models["odd"], original[None].astype(np.float32), RATE, n_codebooks=2)
    assert audio[2] == pytest.approx(trip.decoded[0].clip(-1, 1), abs=2**-23)


def test_sizes_are_those_of_files(tmp_path, models):
    path = save(tmp_path / "a.wav", noise(0.7, 2))
    clip = clips.measure_clip(path, models, [("odd", 2)])
    from dac_rocm.pipeline import encode_file

    encode_file(models["odd"], path, tmp_path / "a.dacz", n_codebooks=2)
    (row,) = (version.row for version in clip.versions[1:])
    assert row["encoded_bytes"] == (tmp_path / "a.dacz").stat().st_size
    assert row["encoded_kbps"] == pytest.approx(8e-3 * row["encoded_bytes"] / 0.7)


def test_silence_has_dashes_and_nulls(tmp_path, models):
    path = save(tmp_path / "silent.wav", np.zeros((RATE, 1)))
    data, read = write(tmp_path, [path], models)
    assert [row["si_sdr_db"] for row in data["rows"]] == [None, None]
    assert read.texts["td"].count("–") >= 2
    assert len(read.attributes("audio", "src")) == 3
    labels = [label for label in read.attributes("svg", "aria-label") if "SI-SDR" in label]
    assert not labels  # nothing to draw


def test_three_minutes_in_stereo(tmp_path):
    rate = 4000
    config = dataclasses.replace(nw.CONFIGS["odd"], sample_rate=rate)
    path = tmp_path / "long.wav"
    soundfile.write(path, noise(45, 2), rate)  # noise() counts in samples of 16 kHz
    data, read = write(tmp_path, [path], {"odd": DAC(config)})
    assert data["inputs"][0]["seconds"] == 180 and data["inputs"][0]["channels"] == 2
    widths = [png_width(source) for source in read.attributes("img", "src")]
    assert widths == [1600] * 3


def png_width(uri):
    return int.from_bytes(base64.b64decode(uri.split(",")[1])[16:20], "big")


NAMES = [
    "\"><img src=x onerror=alert(1)>'.wav",
    "<script>alert(1)<!-- script -->.wav",
    "<!-- clips --> &amp; {a} $b %s \\u003c.wav",
    "Übung 音楽 \u202eevil.wav",
    "]]>--><svg onload=alert(1)>.wav",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_harmless(tmp_path, models, name):
    path = save(tmp_path / name, noise(0.3))
    model = "<b>&\"'</script><script>alert(2)</script>"
    _, read = write(tmp_path, [path], {model: models["odd"]}, machine={"<i>": "<u>"})
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert not {tag for tag, _ in read.elements} & {"b", "u", "iframe", "object"}
    assert not [a for _, attrs in read.elements for a in attrs if a.startswith("on")]
    assert name in read.texts["bdi"] and model in read.texts["h3"]
    assert model in "".join(read.texts["span"])


def test_it_loads_nothing_and_runs_one_script(tmp_path, models):
    _, read = write(tmp_path, [save(tmp_path / "a.wav")], models)
    (script,) = read.texts["script"]
    (policy,) = (p for p in read.attributes("meta", "content") if "default-src" in p)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    for tag, attrs in read.elements:
        for link in ("src", "href"):
            assert re.match("data:|#", attrs.get(link, "#")), (tag, attrs)
    style = read.texts["style"][0]
    assert "url(" not in style and "@import" not in style


def test_references_inside_the_page_lead_somewhere(tmp_path, models):
    inputs = [save(tmp_path / f"{i}.wav", noise(0.3, seed=i)) for i in range(5)]
    _, read = write(tmp_path, inputs, models)
    ids = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [link[1:] for link in read.attributes("a", "href")]
    assert set(links) | set(read.attributes("section", "aria-labelledby")) <= set(ids)
    assert read.texts["title"] == ["Codec report: 0.wav, 1.wav, 2.wav, 3.wav …"]
    assert all(read.attributes("img", "alt"))


def test_a_large_page_is_warned_about(tmp_path, models, monkeypatch):
    monkeypatch.setattr(page, "LARGE_BYTES", 10_000)
    with pytest.warns(UserWarning, match="MB: browsers open it slowly"):
        write(tmp_path, [save(tmp_path / "a.wav")], models)


def test_nothing_is_overwritten_and_nothing_left_half_written(tmp_path, models):
    path, target = save(tmp_path / "a.wav"), tmp_path / "r.html"
    target.write_text("mine")
    with pytest.raises(OutputError, match="force"):
        page.write_report([path], models, target)
    assert target.read_text() == "mine"
    page.write_report([path], models, target, overwrite=True)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    bad = tmp_path / "bad.wav"
    bad.write_text("no audio")
    with pytest.raises(AudioError):
        page.write_report([path, bad], models, tmp_path / "other.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.wav", "bad.wav", "r.html"]


def test_settings_are_models_times_counts(models):
    assert clips.choose_settings(models, ()) == [("odd", None), ("vae", None)]
    assert clips.choose_settings(models, (1, 3)) == [("odd", 1), ("odd", 3), ("vae", None)]
    both = {"odd": models["odd"], "even": nw.build("even")}
    with pytest.warns(UserWarning, match="has not 4 codebooks"):
        assert clips.choose_settings(both, (4,)) == [("even", 4)]
    with pytest.raises(ShapeError, match="none of odd, even has"):
        clips.choose_settings(both, (5,))
    with pytest.raises(ShapeError, match="n_codebooks=0"):
        clips.choose_settings(both, (0,))


def test_wrong_counts_are_one_line(tmp_path, capsys):
    path = save(tmp_path / "a.wav")
    assert main(["report", str(path), "-o", str(tmp_path / "r.html"), "--n-codebooks", "1;2"]) == 1
    assert "numbers with commas between" in capsys.readouterr().err


def test_the_machine_is_told_without_the_environment(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAC_ROCM_SECRET", "do not mail this")
    nw.build("odd").save_pretrained("codec")
    save("a.wav", noise(0.3))
    assert main(["report", "a.wav", "--model", "codec", "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["machine"]["torch"] and "a.wav: codec" in out.err
    assert "do not mail this" not in out.out + (tmp_path / "report.html").read_text("utf-8")


def test_the_chart_draws_what_is_known():
    rows = [
        {"model": "m", "kbps": 1.0, "x": 2.0},
        {"model": "m", "kbps": 2.0, "x": 4.0},
        {"model": "v", "kbps": None, "x": 3.0},
        {"model": "w", "kbps": 1.0, "x": None},
    ]
    drawn = chart.rate_chart(rows, "x", "X & Y")
    assert drawn.count("<circle") == 3  # two points, one in the legend
    assert drawn.count('class="line flat"') == 1
    assert "m: 2.00 at 1.00 kbps, 4.00 at 2.00 kbps; v: 3.00 without a bitrate" in drawn
    assert "X &amp; Y" in drawn and "> w<" not in drawn
    assert chart.rate_chart(rows[3:], "x", "X") == ""
    assert "<svg" in chart.rate_chart(rows[:1], "x", "X")


def luminance(colour):
    """Return the relative luminance of `#rrggbb`. Source: WCAG 2.2."""
    parts = np.array(list(bytes.fromhex(colour[1:]))) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_the_ground(theme):
    style = files("dac_rocm.report").joinpath("page.css").read_text("utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.S)
    colours = dict(re.findall(r"--(\w[\w-]*): (#\w{6})", blocks[theme]))
    for names, grounds, least in (
        (("ink", "soft", "accent"), ("ground", "panel"), 4.5),
        (("on-accent",), ("accent",), 4.5),
        (("wave", "head", "m0", "m1", "m2", "m3"), ("ground", "panel"), 3.0),
    ):
        for pair in ((a, b) for a in names for b in grounds):
            low, high = sorted(luminance(colours[name]) for name in pair)
            assert (high + 0.05) / (low + 0.05) >= least, pair
