"""Names, folders, files and release files: what is taken, and what is said where nothing is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kits import COPIES

from dac_rocm import presets
from dac_rocm.errors import ConfigError, SourceError
from dac_rocm.presets import list_bundled, list_presets, preset
from dac_rocm.weights import download, load_checkpoint, source
from dac_rocm.weights.pick import pick

ODD = COPIES / "descript" / "odd" / "weights.pth"
BIG = "dac-44khz-16kbps"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def release(tmp_path: Path) -> Iterator[str]:
    """Serve a checkpoint as a release file would be, and give its address."""
    (tmp_path / "release").mkdir()
    shutil.copy(ODD, tmp_path / "release" / "weights.pth")
    handler = partial(Quiet, directory=str(tmp_path / "release"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/weights.pth"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(download, "ORIGINAL_CACHE", tmp_path / "descript")
    return tmp_path / "descript"


def known(monkeypatch: pytest.MonkeyPatch, url: str, size: int) -> None:
    changed = replace(preset(BIG), url=url, bytes=size)
    monkeypatch.setattr(source, "preset", lambda name: changed if name == BIG else None)


def test_a_release_file_is_downloaded_once(
    release: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, release, ODD.stat().st_size)
    found = load_checkpoint(BIG)
    assert found.config.sample_rate == 24000
    assert (found.stamp.name, found.license) == (BIG, "MIT")
    assert [file.name for file in cache.iterdir()] == ["weights_44khz_16kbps_1.0.0.pth"]
    known(monkeypatch, "http://127.0.0.1:9/gone", ODD.stat().st_size)
    assert load_checkpoint(BIG, offline=True).layout == "descript"


def test_a_release_file_of_another_size_is_not_kept(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, release, 12345)
    with pytest.raises(SourceError, match=r"12345 are expected.*pass its path"):
        load_checkpoint(BIG, cache_dir=tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("offline", [True, False])
def test_a_release_file_out_of_reach(offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, "http://127.0.0.1:9/weights.pth", 1)
    with pytest.raises(SourceError, match=r"http://127\.0\.0\.1:9/weights\.pth.*pass its path"):
        load_checkpoint(BIG, offline=offline)


def test_the_cache_of_the_original_comes_first(cache: Path) -> None:
    cache.mkdir()
    shutil.copy(ODD, cache / "weights_44khz_8kbps_0.0.1.pth")
    found = load_checkpoint("dac-44khz", offline=True)
    assert found.layout == "descript"
    assert found.stamp.name == "dac-44khz"


def test_folders_files_and_paths(tmp_path: Path) -> None:
    for where in (str(ODD), ODD, ODD.parent, str(ODD.parent)):
        assert load_checkpoint(where).config.sample_rate == 24000
    folder = tmp_path / "org" / "model"
    shutil.copytree(COPIES / "mova" / "audio_vae", folder / "audio_vae")
    whole = load_checkpoint(folder)
    assert load_checkpoint(folder, subfolder="audio_vae").config == whole.config
    with pytest.raises(SourceError, match="no weights found"):
        load_checkpoint(folder, subfolder="vae")


def test_a_folder_wins_over_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ODD.parent, tmp_path / "org" / "model")
    monkeypatch.chdir(tmp_path)
    assert load_checkpoint("org/model").stamp.name == "model"


def test_picking() -> None:
    files = ["a.safetensors", "weights.pth", "vae/model.safetensors", "vae/config.json", "x.txt"]
    assert pick(files) == ("weights.pth", None)
    assert pick(files).is_whole
    assert pick(files, "vae") == ("vae/model.safetensors", "vae/config.json")
    assert pick(files, "", "a.*") == ("a.safetensors", None)
    assert not pick(files, "", "a.*").is_whole
    assert pick(files, "other") is None
    assert pick(["deep/vae/model.safetensors"]) is None


def test_presets_are_whole() -> None:
    assert len(list_presets()) >= 19
    for model in list_presets():
        assert model.config.sample_rate == model.sample_rate
        assert model.kind == ("codes" if model.bitrate else "latents")
        assert (model.repo is None) == (model.url is not None)
        assert model.url is None or (model.bytes and model.original_file)
    rates = {model.name: model.bitrate for model in list_presets()}
    assert rates["dac-16khz"] == 6000
    assert rates["dac-24khz"] == 24000
    assert rates["dac-44khz"] == pytest.approx(7752, abs=1)
    assert rates["ibm-dac-speech-3kbps"] == 3000
    assert [model.name for model in list_bundled()] == ["tiny", "tiny-vae"]


def test_presets_are_what_the_script_writes(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "scripts" / "make_configs.py"), "--folder", str(tmp_path)]
    subprocess.run(
        command, check=True, capture_output=True, cwd=root, env={"PYTHONPATH": str(root)}
    )
    written = {file.name: file.read_text() for file in tmp_path.glob("*.json")}
    assert written == {f.name: f.read_text() for f in (root / "configs").glob("*.json")}


def test_damaged_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text("{}")
    monkeypatch.setattr(presets, "ASSETS", tmp_path)
    with pytest.raises(ConfigError, match="Install dac_rocm again"):
        list_bundled()
    monkeypatch.setattr(presets, "__file__", str(tmp_path / "x" / "presets.py"))
    with pytest.raises(SourceError, match="Install dac_rocm again"):
        presets.config_folder()
    (tmp_path / "x" / "configs").mkdir(parents=True)
    assert presets.config_folder() == tmp_path / "x" / "configs"
