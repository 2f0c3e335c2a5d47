"""One suite for merge requests in process on every database, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in ("postgresql", "mariadb"):
        found: str = request.getfixturevalue(f"{request.param}_url")
        return found
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def versions(url: str) -> Iterator[VersionStore]:
    versions = VersionStore(Store.open(url))
    yield versions
    versions.close()


@pytest.fixture
def requests(
    request: pytest.FixtureRequest, versions: VersionStore, url: str
) -> Iterator[MergeRequests | NessieClient]:
    if "http" not in request.node.callspec.params.values():
        yield MergeRequests(versions)
        return
    with running_server(url) as base_uri, NessieClient(base_uri) as client:
        yield client
