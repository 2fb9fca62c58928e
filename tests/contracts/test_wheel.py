"""The wheel is complete: installed alone, it knows every preset and loads the bundled model."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USE = """
import sys, warnings
from pathlib import Path
import dac_rocm
from dac_rocm.presets import list_presets

assert Path(dac_rocm.__file__).is_relative_to(sys.prefix), dac_rocm.__file__
for preset in list_presets():
    assert preset.config.hop_length and dac_rocm.CodecConfig.from_dict(preset.config.to_dict())
warnings.simplefilter("ignore", UserWarning)  # the bundled weights may be random
assert dac_rocm.load("tiny", offline=True).name == "tiny"
print(*(preset.name for preset in list_presets()))
"""


def run(*command, **options):
    done = subprocess.run(command, check=True, capture_output=True, text=True, **options)
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """Make a venv that holds the wheel, and finds all else where the running one does."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder)
    python = folder / "bin" / "python"
    packages = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (packages / "running.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    run(*pip, "--no-deps", "--no-index", "--ignore-installed", wheel)
    return folder / "bin"


def test_it_holds_what_it_should(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    configs = {f"dac_rocm/configs/{path.name}" for path in (ROOT / "configs").glob("*.json")}
    assets = {f"dac_rocm/assets/{path.name}" for path in (ROOT / "dac_rocm/assets").iterdir()}
    page = {f"dac_rocm/report/page.{kind}" for kind in ("html", "css", "js")}
    assert configs | assets | page | {"dac_rocm/py.typed"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dac_rocm"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_preset_and_the_bundled_model_load_from_it(fresh, tmp_path):
    found = run(fresh / "python", "-c", USE, cwd=tmp_path).split()
    assert sorted(found) == sorted(path.stem for path in (ROOT / "configs").glob("*.json"))


def test_its_command_runs(fresh, tmp_path):
    listed = run(fresh / "dac-rocm", "models", cwd=tmp_path)
    assert all(path.stem in listed for path in (ROOT / "configs").glob("*.json"))
