"""The rooms of the package and what each may import: design.md section 3, as a table.

An arrow that is not in the table is a decision: either the code stands in the wrong room, or the
table grows in the same change.
"""

import ast
import graphlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dac_rocm"

CORE = ("errors", "choice", "config", "lowering", "geometry", "encoded")
"""Rooms that everyone may import; each may import those before it."""

ROOMS = {
    "atomic": "",
    "presets": "",
    "ops": "",
    "nn": "ops",
    "buffers": "",
    "nodes": "buffers",
    "engine": "nodes ops",
    "plain": "nn nodes ops",
    "runtime": "engine nn nodes ops plain",
    "checks": "",
    "weights": "atomic presets",
    "pretrained": "runtime weights",
    "codec": "checks engine nn ops plain pretrained runtime",
    "dac": "checks codec nn",
    "dacvae": "checks codec nn",
    "model": "codec dac dacvae runtime weights",
    "streaming": "checks codec dac runtime",
    "container": "atomic",
    "audio": "atomic",
    "pipeline": "atomic audio checks codec container dac engine nn streaming",
    "batch": "atomic audio codec container dac dacvae nn pipeline",
    "repack": "audio codec container dac pipeline",
    "evaluate": "audio",
    "roundtrip": "audio codec evaluate pipeline",
    "report": "atomic audio codec container dac dacvae evaluate pipeline roundtrip",
    "doctor": "codec model ops runtime",
    "bench": "codec doctor model ops runtime streaming",
    # A shard holds what a folder run would write: the same listing, clips, batches and folder lock.
    "distributed": "atomic audio batch codec dac dacvae model pipeline runtime weights",
    "cli": (
        "atomic audio batch bench codec container dac dacvae distributed doctor evaluate model "
        "pipeline presets repack report roundtrip runtime weights"
    ),
    "__main__": "cli",
}
"""Room to the rooms that it may import beside the core."""

WITHOUT_TORCH = {*CORE, "atomic", "presets", "container", "audio", "cli", "__main__"}
"""Rooms that load no torch when they are imported."""
WITHOUT_NUMPY = {*CORE, "atomic", "presets", "container", "cli", "__main__"}
"""Rooms that load no numpy when they are imported."""

LATE = {
    *("torch", "numpy"),  # where a room must import without them
    *("huggingface_hub", "matplotlib", "soundfile", "soxr", "torchaudio", "tqdm", "triton"),
}
"""Optional or heavy packages, which may be imported inside a function."""
LATE_MODULES = {"ops.snake_triton"}
"""Modules of ours that need such a package, and so are imported where they are chosen."""


def modules():
    """Name every module but the package's own table of public names, with its syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield ".".join(p for p in parts if p != "__init__"), ast.parse(path.read_text())


def imports(tree, *, in_functions):
    """Yield the modules that a tree imports, as `a.b`; `in_functions` says which imports."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if inside == in_functions:
                yield from names(child)
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, inside or function)

    return set(walk(tree, False))


def names(node):
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        for alias in node.names:  # `from dac_rocm import checks` is an import of a module
            known = (PACKAGE.parent / node.module.replace(".", "/") / alias.name).with_suffix(".py")
            yield f"{node.module}.{alias.name}" if known.exists() else node.module


def at_import(tree):
    """Yield what importing the module loads: nothing under `if TYPE_CHECKING`."""
    kept = [n for n in tree.body if "TYPE_CHECKING" not in ast.unparse(getattr(n, "test", n))]
    return imports(ast.Module(kept, []), in_functions=False)


def ours(found):
    return {name.removeprefix("dac_rocm.") for name in found if name.startswith("dac_rocm.")}


MODULES = dict(modules())


def test_every_room_is_in_the_table():
    assert {name.split(".")[0] for name in MODULES} == {*CORE, *ROOMS}


def test_the_table_has_no_cycle():
    graphlib.TopologicalSorter({room: other.split() for room, other in ROOMS.items()}).prepare()


@pytest.mark.parametrize("module", MODULES)
def test_arrows(module):
    room = module.split(".")[0]
    allowed = CORE[: CORE.index(room)] if room in CORE else {*CORE, *ROOMS[room].split()}
    tree = MODULES[module]
    found = imports(tree, in_functions=False) | imports(tree, in_functions=True)
    arrows = {name.split(".")[0] for name in ours(found)} - {room}
    assert arrows <= set(allowed), f"{module} imports {sorted(arrows - set(allowed))}"


def test_modules_have_no_cycle():
    graph = {name: ours(at_import(tree)) - {name} for name, tree in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", MODULES)
def test_imports_inside_functions(module):
    late = imports(MODULES[module], in_functions=True)
    if module.startswith("cli"):
        return  # a sub-command imports what it needs when it runs
    assert ours(late) <= LATE_MODULES
    assert {name.split(".")[0] for name in late} <= LATE | {"dac_rocm"}


@pytest.mark.parametrize("package, rooms", [("torch", WITHOUT_TORCH), ("numpy", WITHOUT_NUMPY)])
def test_light_rooms(package, rooms):
    for module, tree in MODULES.items():
        if module.split(".")[0] in rooms:
            loaded = {name.split(".")[0] for name in at_import(tree)}
            assert package not in loaded, module
