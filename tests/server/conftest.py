"""A server per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.helpers import Api, running_server


@pytest.fixture
def base_uri() -> Iterator[str]:
    """A server over an empty repository."""
    with running_server() as uri:
        yield uri


@pytest.fixture
def api(base_uri: str) -> Iterator[Api]:
    client = Api(base_uri)
    yield client
    client.http.close()
