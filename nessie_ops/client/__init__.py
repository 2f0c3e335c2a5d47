"""The catalog's client over HTTP."""

from nessie_ops.client.client import NessieClient
from nessie_ops.client.connection import without_user

__all__ = ["NessieClient", "without_user"]
