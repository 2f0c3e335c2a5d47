"""One home for the tests of changes: its main has a month, which came there as a change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app
from nessie_ops.client import NessieClient
from resources.catalog import CatalogResource
from tests.dagster.conftest import source

__all__ = ["source"]

SMALL = "gold/airport_hourly"  # nothing is made of it, so it alone is loaded and checked


class Ran(NamedTuple):
    """How a command ended: `value` is what it printed as JSON."""

    code: int
    value: Any
    err: str


Command = Callable[..., Ran]


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for all tests of this folder, without data; the catalog of this process and of those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("ci")
        patch.setenv("NESSIE_OPS_HOME", str(path))
        patch.setenv("DAGSTER_HOME", str(path / "dagster"))
        yield path


@pytest.fixture(scope="package")
def client(home: Path) -> NessieClient:
    """A client of the home's catalog, through a server in this process."""
    return CatalogResource().client


@pytest.fixture(scope="package")
def ci(home: Path) -> Command:
    """Runs `nessie-ops ci` in this process, with --json."""

    def run(*words: str) -> Ran:
        result = CliRunner().invoke(make_app(), ["ci", *words, "--json"])
        value = json.loads(result.stdout) if result.stdout.startswith(("{", "[")) else None
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ran(result.exit_code, value, result.stderr)

    return run


@pytest.fixture(scope="package")
def summary(home: Path) -> Path:
    """Where the month's summaries are."""
    return home / "first"


@pytest.fixture(scope="package")
def january(ci: Command, source: Path, summary: Path) -> Sequence[Ran]:
    """January on main, which was empty: `up`, a merge that is only tried, `merge`."""
    first = ci("up", "--name", "first", "--source", str(source), "--summary", str(summary), "--by", "ann")
    return [first, ci("merge", "--name", "first", "--dry-run"), ci("merge", "--name", "first", "--by", "ann")]
