"""A layer imports only the layers to its left, and each framework is one layer's own business."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"model"},
    {"store"},
    {"versioning"},
    {"catalog", "events", "mergerequests", "transactions"},
    {"gc"},
    {"sql"},
    {"server", "cli", ""},  # the empty name: the package's own public names
    {"resources"},
    {"assets"},
    {"schedules"},
)
LEAVES = {
    "errors": set(),
    "runtime": {"errors"},
    "buffering": {"errors", "model"},
    "client": {"errors", "model", "buffering"},
}  # importable by every layer
COMPOSITION = {"__main__", "ci", "definitions", "demo", "driving", "instance", "month_runs", "ui"}  # import all
FRAMEWORKS = {
    "sqlmodel": {"store"},
    "sqlalchemy": {"store"},
    "litestar": {"server"},
    "uvicorn": {"server"},
    "typer": {"cli", "__main__"},
    "lark": {"sql"},
}


def sources() -> list[Path]:
    return [path for top in ("nessie_ops", "assets", "resources", "schedules") for path in (ROOT / top).rglob("*.py")]


def layer_of(module: str) -> str:
    """The layer of a module of ours; any other module's own name, dotted so that `gc` is not taken for a layer."""
    first, _, rest = module.partition(".")
    if first == "nessie_ops":
        return rest.partition(".")[0]
    return first if first in {"assets", "resources", "schedules"} else f"{first}."


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that `node` imports when it runs: not those for the type checker alone."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: a relative import hides the layer"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from names if node.module == "nessie_ops" else [str(node.module)]
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def violations(path: str, source: str) -> list[str]:
    """The imports of the file at `path` (from the root of the project) that its layer may not have."""
    layer = layer_of(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    known = set().union(*LAYERS, LEAVES, COMPOSITION)
    if layer in COMPOSITION:
        return []
    if layer not in known:
        return [f"{path}: {layer} has no place among the layers"]
    allowed = LEAVES.get(layer, set(LEAVES)) | {layer}
    for peers in () if layer in LEAVES else LAYERS:
        if layer in peers:
            break
        allowed |= peers
    modules = list(imported(ast.parse(source)))
    wrong = [module for module in modules if layer_of(module) in known - allowed]
    wrong += [module for module in modules if layer not in FRAMEWORKS.get(module.partition(".")[0], {layer})]
    return [f"{path}: {layer or 'nessie_ops'} imports {module}" for module in wrong]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_to_the_left(path: Path) -> None:
    assert violations(path.relative_to(ROOT).as_posix(), path.read_text()) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("nessie_ops/store/store.py", "from nessie_ops.versioning import tree"),
        ("nessie_ops/store/store.py", "def f():\n    import nessie_ops.server.app"),
        ("nessie_ops/cli/serve.py", "from nessie_ops.server.serve import serve"),
        ("nessie_ops/server/app.py", "from nessie_ops import cli"),
        ("nessie_ops/events/queue.py", "from nessie_ops.catalog import IcebergCatalog"),
        ("nessie_ops/runtime/java.py", "from nessie_ops.model import ids"),
        ("nessie_ops/client/client.py", "from nessie_ops.store import Store"),
        ("resources/spark.py", "from assets import flights"),
        ("nessie_ops/catalog/lake.py", "import sqlalchemy.orm"),
        ("assets/flights.py", "from litestar import get"),
        ("assets/flights.py", "from nessie_ops import definitions"),
        ("nessie_ops/unheard_of.py", ""),
    ],
)
def test_an_arrow_to_the_right_is_seen(path: str, source: str) -> None:
    assert len(violations(path, source)) == 1
