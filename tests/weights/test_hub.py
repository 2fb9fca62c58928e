"""The Hub, end to end: its real client, in another process, speaks to a server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub import Hub, Repo, running
from kits import COPIES, load
from safetensors.torch import load_file, save
from torch import Tensor

ROOT = Path(__file__).parents[2]
ODD = COPIES / "descript" / "odd" / "weights.pth"
DAC = COPIES / "transformers" / "main"
Client = Callable[..., dict]


def client(hub: Hub, home: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(ROOT),
        **environment,
    }
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTP_PROXY", "http_proxy"):
        variables.pop(name, None)
    with (home / "stderr.txt").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "hub_client.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=variables,
        )


def asking(process: subprocess.Popen[str]) -> Client:
    def ask(source: str, **options: object) -> dict:
        process.stdin.write(json.dumps({"source": source, **options}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    return ask


def stop(process: subprocess.Popen[str]) -> None:
    process.stdin.close()
    process.stdout.close()
    process.wait(timeout=30)


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with running() as hub:
        yield hub


@pytest.fixture(scope="module")
def worker(server: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    process = client(server, tmp_path_factory.mktemp("home"))
    yield asking(process)
    stop(process)


@pytest.fixture
def hub(server: Hub) -> Iterator[Hub]:
    server.repos.clear()
    server.log.clear()
    yield server
    server.down = False
    server.truncate.clear()


@pytest.fixture
def ask(worker: Client, tmp_path: Path) -> Client:
    return lambda source, **options: worker(source, cache_dir=str(tmp_path), **options)


def files_of(folder: Path, prefix: str = "") -> dict[str, bytes]:
    return {prefix + f.name: f.read_bytes() for f in folder.iterdir() if f.suffix != ".md"}


def test_only_the_needed_files_and_then_one_head(hub: Hub, ask: Client) -> None:
    beside = {"README.md": b"#", "pytorch_model.bin": b"x" * 9, "onnx/model.onnx": b"y"}
    hub.repo("org/dac", {**files_of(DAC), **beside})
    first = ask("org/dac")
    assert first["layout"] == "transformers"
    assert first["fingerprints"] == dict(load(DAC).stamp.fingerprints)
    assert first["name"] == "org/dac"
    got = [line.rpartition("/")[2] for line in hub.log if line.startswith("GET /org")]
    assert sorted(got) == ["config.json", "model.safetensors"]
    hub.log.clear()
    assert ask("org/dac") == first
    assert [line.split()[0] for line in hub.log] == ["HEAD"]


def test_a_commit_in_the_cache_needs_no_network(hub: Hub, ask: Client) -> None:
    commit = hub.repo("org/dac", files_of(DAC))
    ask("org/dac", revision=commit)
    hub.log.clear()
    assert ask("org/dac", revision=commit)["layout"] == "transformers"
    assert hub.log == []


def test_a_file_that_holds_its_config_needs_no_config_json(hub: Hub, ask: Client) -> None:
    hub.repo("org/odd", {"weights.pth": ODD.read_bytes()})
    assert ask("org/odd")["sample_rate"] == 24000
    hub.log.clear()
    assert ask("org/odd")["layout"] == "descript"
    assert [line.split()[0] for line in hub.log] == ["HEAD"]


def test_branches_and_tags(hub: Hub, ask: Client) -> None:
    hub.repo("org/two", files_of(DAC))
    hub.repos["org/two"].commit({"weights.pth": ODD.read_bytes()}, "v1")
    assert ask("org/two")["layout"] == "transformers"
    assert ask("org/two", revision="v1")["layout"] == "descript"
    missing = ask("org/two", revision="v2")
    assert missing["error"] == "SourceError"
    assert "no such revision" in missing["message"] and "tag" in missing["message"]


def test_a_branch_that_moved_is_followed(hub: Hub, ask: Client) -> None:
    hub.repo("org/moves", files_of(DAC))
    assert ask("org/moves")["layout"] == "transformers"
    hub.repos["org/moves"].commit({"weights.pth": ODD.read_bytes()})
    assert ask("org/moves")["layout"] == "descript"
    assert ask("org/moves", offline=True)["layout"] == "descript"


@pytest.mark.parametrize("folder", ["audio_vae", "vae", "deep/er"])
def test_subfolders(hub: Hub, ask: Client, folder: str) -> None:
    vae = COPIES / "mova" / "audio_vae"
    hub.repo("org/full", {**files_of(vae, f"{folder}/"), "unet/config.json": b"{}"})
    found = ask("org/full", subfolder=folder)
    assert found["sample_rate"] == 48000
    assert ask(f"org/full/{folder}") == found
    one = ask(f"org/full/{folder}/diffusion_pytorch_model.safetensors")
    assert one == found
    if folder != "deep/er":
        assert ask("org/full") == found
    else:
        assert "no weights found" in ask("org/full")["message"]


def test_presets_know_file_rate_and_licence(hub: Hub, ask: Client) -> None:
    fp16 = (COPIES / "hunyuan" / "vae_tiny_fp16.safetensors").read_bytes()
    hub.repo("phazei/HunyuanVideo-Foley", {"vae_128d_48k_fp16.safetensors": fp16, "x.pth": b""})
    for source in ("hunyuan-foley-fp16", "phazei/HunyuanVideo-Foley"):
        found = ask(source)
        assert found["sample_rate"] == 48000
        assert found["license"] == "Tencent-Hunyuan-Community"
        assert any("not valid in the EU" in note for note in found["notes"])


def test_gated_repos_say_how_to_ask(hub: Hub, ask: Client) -> None:
    hub.repo("org/gated", files_of(DAC), gated=True)
    refused = ask("org/gated")
    assert refused["error"] == "SourceError"
    assert "gated" in refused["message"]
    assert f"{hub.url}/org/gated" in refused["message"]
    assert "hf auth login" in refused["message"]
    assert ask("org/gated", token="hf_secret")["layout"] == "transformers"


def test_private_and_missing_repos(hub: Hub, ask: Client) -> None:
    hub.repo("org/private", files_of(DAC), private=True)
    for source in ("org/private", "org/typo"):
        message = ask(source)["message"]
        assert "no such repo, or a private one" in message
        assert "token" in message
    assert ask("org/private", token="hf_secret")["layout"] == "transformers"


def test_a_repo_without_weights(hub: Hub, ask: Client) -> None:
    hub.repo("org/text", {"config.json": b"{}", "README.md": b"#"})
    assert "no weights found" in ask("org/text")["message"]


def test_offline_with_and_without_cache(hub: Hub, ask: Client) -> None:
    hub.repo("org/dac", files_of(DAC))
    nothing = ask("org/dac", offline=True)
    assert nothing["error"] == "SourceError"
    assert "nothing found in the cache" in nothing["message"]
    found = ask("org/dac")
    hub.log.clear()
    assert ask("org/dac", offline=True) == found
    assert hub.log == []


def test_a_hub_that_is_down_gives_the_cached_commit(hub: Hub, ask: Client) -> None:
    commit = hub.repo("org/dac", files_of(DAC))
    hub.down = True
    assert "503" in ask("org/dac")["message"]
    hub.down = False
    assert ask("org/dac")["notes"] == []
    hub.down = True
    again = ask("org/dac")
    assert again["layout"] == "transformers"
    assert any(commit in note and "cached copy" in note for note in again["notes"])


def test_a_truncated_download_is_not_kept(hub: Hub, ask: Client) -> None:
    hub.repo("org/dac", files_of(DAC))
    hub.truncate.add("model.safetensors")
    broken = ask("org/dac")
    assert broken["error"] == "SourceError"
    assert "broke off" in broken["message"] and "Try again" in broken["message"]
    hub.truncate.clear()
    assert ask("org/dac")["layout"] == "transformers"


def test_only_the_files_that_a_half_needs(hub: Hub, ask: Client) -> None:
    tensors = load_file(DAC / "model.safetensors")
    listed = {f"audio_encoder.{n}": f"{n.partition('.')[0]}.safetensors" for n in tensors}
    files = {file: tensors_in(tensors, file) for file in set(listed.values())}
    listed["text.weight"], files["text.safetensors"] = "text.safetensors", b"huge"
    index = {"model.safetensors.index.json": json.dumps({"weight_map": listed}).encode()}
    config = (DAC / "config.json").read_bytes()
    hub.repo("org/big", {"config.json": config, **index, **files})

    def got() -> set[str]:
        asked = {line.rpartition("/")[2] for line in hub.log if line.startswith("GET /org")}
        hub.log.clear()
        return {name for name in asked if name.endswith(".safetensors")}

    assert ask("org/big", parts="decoder")["layout"] == "transformers"
    assert got() == {"decoder.safetensors", "quantizer.safetensors"}
    assert ask("org/big", parts="decoder", offline=True)["layout"] == "transformers"
    assert "nothing found in the cache" in ask("org/big", offline=True)["message"]
    assert ask("org/big")["fingerprints"] == dict(load(DAC).stamp.fingerprints)
    assert got() == {"encoder.safetensors"}
    bad = {"model.safetensors.index.json": b'{"weight_map": {"a": "../../x.safetensors"}}'}
    hub.repo("org/bad", {"config.json": config, **bad})
    assert "own folder" in ask("org/bad")["message"]


def tensors_in(tensors: dict[str, Tensor], file: str) -> bytes:
    half = file.removesuffix("safetensors")
    return save({f"audio_encoder.{n}": t for n, t in tensors.items() if n.startswith(half)})


def test_pushing_makes_a_repo_and_commits(hub: Hub, ask: Client) -> None:
    pushed = ask(str(DAC), push={"repo": "me/codec", "token": "hf_mine", "private": True})
    assert pushed["url"].startswith(f"{hub.url}/me/codec/commit/")
    repo: Repo = hub.repos["me/codec"]
    assert repo.private
    assert set(repo.commits[repo.refs["main"]]) == {
        "README.md",
        "config.json",
        "model.safetensors",
    }
    again = ask("me/codec", token=repo.token)
    assert again["layout"] == "canonical"
    assert again["fingerprints"] == pushed["fingerprints"]
    hub.down = True
    assert "503" in ask(str(DAC), push={"repo": "me/other", "token": "hf_mine"})["message"]


def test_no_network(tmp_path: Path) -> None:
    process = client(Hub(url="http://127.0.0.1:9"), tmp_path)
    try:
        refused = asking(process)("org/dac", cache_dir=str(tmp_path))
    finally:
        stop(process)
    assert refused["error"] == "SourceError"
    assert "no answer from the Hub" in refused["message"]
    assert "check the network" in refused["message"]


def test_hf_hub_offline_makes_no_call(hub: Hub, ask: Client, tmp_path: Path) -> None:
    hub.repo("org/dac", files_of(DAC))
    found = ask("org/dac")
    hub.log.clear()
    process = client(hub, tmp_path, HF_HUB_OFFLINE="1")
    try:
        offline = asking(process)
        assert offline("org/dac", cache_dir=str(tmp_path)) == found
        assert "nothing found" in offline("org/other", cache_dir=str(tmp_path))["message"]
    finally:
        stop(process)
    assert hub.log == []
