"""Tiny saved models that all processes can load."""

import pytest
from networks import build


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Folder of a model with 4 codebooks of 32 entries."""
    folder = tmp_path_factory.mktemp("models") / "even"
    build("even").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def saved_vae(tmp_path_factory):
    """Folder of a model with latents."""
    folder = tmp_path_factory.mktemp("models") / "meta"
    build("meta").save_pretrained(folder)
    return str(folder)
