"""The catalog's client over HTTP."""

from nessie_ops.client.client import NessieClient

__all__ = ["NessieClient"]
