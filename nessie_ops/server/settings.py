"""What the server is told from outside: addresses of its store and warehouse, and where to listen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from nessie_ops.catalog import AWS, S3
from nessie_ops.catalog.stores import NOTHING
from nessie_ops.errors import BadRequest
from nessie_ops.runtime.home import allowed_locations as locations_in
from nessie_ops.runtime.home import get_home, store_url, warehouse_url

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 19120  # Nessie's
DEFAULT_KEY_LIFETIME_S = 30 * 60
MAX_KEY_LIFETIME_S = 7 * 24 * 3600


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`store` is a SQLAlchemy URL, `warehouse` an fsspec URL; port 0 takes a free one.

    `allowed_locations` are URLs of folders and buckets besides the warehouse that tables may lie in.
    """

    store: str
    warehouse: str
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    allowed_locations: tuple[str, ...] = ()
    key_lifetime_s: int = DEFAULT_KEY_LIFETIME_S  # how long the answer to a request with an Idempotency-Key is kept
    s3: S3 = AWS

    @classmethod
    def from_env(
        cls,
        *,
        store: str | None = None,
        warehouse: str | None = None,
        host: str | None = None,
        port: int | None = None,
        allowed_locations: Sequence[str] = (),
        s3: Mapping[str, str] = NOTHING,
        env: Mapping[str, str] = os.environ,
    ) -> Settings:
        """Given values first, then `NESSIE_OPS_STORE`, `_WAREHOUSE`, `_HOST`, `_PORT` and `_ALLOWED_LOCATIONS`.

        Then the home's, and no further locations.  `NESSIE_OPS_IDEMPOTENCY_KEY_LIFETIME` is read here alone.  `s3`
        gives fields of the settings of S3, whose variables begin with `NESSIE_OPS_S3_`.
        """
        text = str(port) if port is not None else env.get("NESSIE_OPS_PORT") or str(DEFAULT_PORT)
        if not (text.isascii() and text.isdecimal() and int(text) < 65536):
            raise BadRequest(f"port: '{text}' is not a port number (0 to 65535); give --port or NESSIE_OPS_PORT.")
        return cls(
            store=store or env.get("NESSIE_OPS_STORE") or store_url(get_home()),
            warehouse=warehouse or env.get("NESSIE_OPS_WAREHOUSE") or warehouse_url(get_home()),
            host=host or env.get("NESSIE_OPS_HOST") or DEFAULT_HOST,
            port=int(text),
            allowed_locations=tuple(allowed_locations) or locations_in(env),
            key_lifetime_s=_read_lifetime(env.get("NESSIE_OPS_IDEMPOTENCY_KEY_LIFETIME")),
            s3=S3.from_env(s3, env),
        )


def _read_lifetime(text: str | None) -> int:
    if not text:
        return DEFAULT_KEY_LIFETIME_S
    try:
        seconds = int(msgspec.convert(text, timedelta).total_seconds())
    except msgspec.ValidationError:
        seconds = 0
    if not 0 < seconds <= MAX_KEY_LIFETIME_S:
        raise BadRequest(
            f"NESSIE_OPS_IDEMPOTENCY_KEY_LIFETIME: '{text[:80]}' is not a duration from PT1S to P7D, such as PT30M."
        )
    return seconds
