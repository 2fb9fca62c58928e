"""`dac-rocm models`: every known name with its real facts."""

from __future__ import annotations

import json

from dac_rocm.cli.main import main
from dac_rocm.presets import list_models


def test_json_is_list_models(capsys):
    assert main(["models", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)
    assert models == list_models()
    assert models[0]["name"] == "tiny"
    by_name = {m["name"]: m for m in models}
    assert by_name["dac-44khz"]["kbps"] == 7.751953125
    assert by_name["dac-24khz"]["kbps"] == 24.0
    assert by_name["dac-16khz"]["kbps"] == 6.0
    assert by_name["mova-360p"]["kind"] == "latents"
    assert by_name["mova-360p"]["kbps"] is None


def test_one_line_each(capsys):
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for model in list_models():
        (line,) = [x for x in lines if x.split(" ")[0] == model["name"]]
        assert str(model["sample_rate"]) in line
        assert model["kind"] in line
