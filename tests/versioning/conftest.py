"""One suite for every backend: in memory, in a file, in a file without a cache, on PostgreSQL and on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore


@pytest.fixture(params=["memory", "file", "uncached", "postgresql", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param in ("postgresql", "mariadb"):
        url: str = request.getfixturevalue(f"{request.param}_url")
    else:
        url = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/catalog.db"
    opened = Store.open(url, cache=Cache(0) if request.param == "uncached" else None)
    yield opened
    opened.close()


@pytest.fixture
def versions(store: Store) -> VersionStore:
    return VersionStore(store)
