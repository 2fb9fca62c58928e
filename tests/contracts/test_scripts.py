"""Every script says what it does."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    path
    for folder in (ROOT / "scripts", ROOT / "scripts/bench")
    for path in sorted(folder.iterdir())
    if path.is_file() and os.access(path, os.X_OK)
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help(script):
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.startswith("usage: ")


def test_a_script_is_executable_if_it_begins_like_one():
    for path in (ROOT / "scripts").rglob("*"):
        if path.is_file() and path.suffix in ("", ".py"):
            begins = path.read_bytes().startswith(b"#!")
            assert begins == os.access(path, os.X_OK), path


def test_a_wrong_argument_is_refused():
    command = [ROOT / "scripts/test", "--everything"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--everything" in done.stderr


def test_shell_scripts_parse():
    for path in (*SCRIPTS, ROOT / "scripts/environment.sh", ROOT / ".ci/run"):
        if path.suffix == ".sh" or path.read_text().splitlines()[0].endswith("sh"):
            subprocess.run(["bash", "-n", path], check=True)
