"""One suite for every backend: in memory, in a file, and in a file without a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore


@pytest.fixture(params=["memory", "file", "uncached"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/catalog.db"
    opened = Store.open(url, cache=Cache(0) if request.param == "uncached" else None)
    yield opened
    opened.close()


@pytest.fixture
def versions(store: Store) -> VersionStore:
    return VersionStore(store)
