"""One suite for every database: in memory, in a file, PostgreSQL, MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "memory":
        return "sqlite://"
    if request.param == "file":
        return f"sqlite:///{tmp_path}/catalog.db"
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url)
    yield opened
    opened.close()


@pytest.fixture
def versions(store: Store) -> VersionStore:
    return VersionStore(store)
