"""A server per test, as in the server's own tests."""

from tests.server.conftest import api, base_uri

__all__ = ["api", "base_uri"]
