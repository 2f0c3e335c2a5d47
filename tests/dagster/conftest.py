"""Deliveries of few days, and homes of their own, for the tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.instance import open_instance
from resources.catalog import CatalogResource
from tests.dagster.deliveries import copy_first_months


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real deliveries, of three days of each of the first three months: the first, the 15th and the last."""
    folder = tmp_path_factory.mktemp("source")
    copy_first_months(folder)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home without data; the catalog of this process and of those that it starts while the module's tests run."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("pipeline")
        patch.setenv("NESSIE_OPS_HOME", str(path))
        patch.setenv("DAGSTER_HOME", str(path / "dagster"))
        yield path


@pytest.fixture
def client(home: Path) -> NessieClient:
    """A client of the home's catalog, through a server in this process."""
    return CatalogResource().client


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the home."""
    with open_instance(home) as instance:
        yield instance
