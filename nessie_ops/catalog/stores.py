"""Object stores: how the file system of a location is opened, and how S3 is reached.

Invariant: no setting here is a secret, and none is printed that could hold one: credentials come from the AWS
libraries' own chain (environment, profile, instance role), as those of GCS and Azure come from theirs.  Every call
is bounded in time and attempts.  A file system is looked up anew for each use, since fsspec keeps one for each
process: what a forked child would inherit talks through its parent's thread.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import fsspec
import msgspec
from fsspec.asyn import AsyncFileSystem

from nessie_ops.errors import BadRequest, MachineNotReady

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 20  # of silence
ATTEMPTS = 3
CALL_TIMEOUT_S = 120  # of one read or write with all its attempts; 256 MB at 2 MB/s
CONNECTIONS = 64  # as many as the server has threads

NOTHING: Mapping[str, str] = MappingProxyType({})
_EXTRAS = {"gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure", "adl": "azure"}
_VARIABLES = {  # the first that is set; after ours those of the AWS libraries, which do not agree among themselves
    "endpoint": ("NESSIE_OPS_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("NESSIE_OPS_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "path_style": ("NESSIE_OPS_S3_PATH_STYLE",),
    "role_arn": ("NESSIE_OPS_S3_ROLE_ARN",),
    "sts_endpoint": ("NESSIE_OPS_S3_STS_ENDPOINT", "AWS_ENDPOINT_URL_STS"),
    "remote_signing": ("NESSIE_OPS_S3_REMOTE_SIGNING",),
}
_SWITCH = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_ROLE = re.compile(r"arn:[a-z-]+:iam::[0-9]*:role/[A-Za-z0-9+=,.@_/-]{1,512}")
_REGION = re.compile(r"[A-Za-z0-9-]{0,64}")


class S3(msgspec.Struct, frozen=True, kw_only=True):
    """Where S3 is: an empty `endpoint` or `region` leaves it to the AWS libraries."""

    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    role_arn: str = ""  # whose credentials, narrowed to a table, clients may have; empty: none
    sts_endpoint: str = ""  # empty: `endpoint`, and without that AWS's
    remote_signing: bool = False  # whether requests of clients are signed

    @classmethod
    def from_env(cls, given: Mapping[str, str] = NOTHING, env: Mapping[str, str] = os.environ) -> S3:
        """Given values by field first, then `NESSIE_OPS_S3_*`, then the variables of AWS; BadRequest.

        The message names the variable and does not repeat a value: somebody may have put a secret there.
        """
        fields = {}
        for field, names in _VARIABLES.items():
            text = given.get(field) or next(filter(None, map(env.get, names)), "")
            fields[field] = _PARSERS[field](text, names[0])
        return cls(**fields)

    def file_system_options(self) -> dict[str, Any]:
        """What s3fs is opened with."""
        config: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": READ_TIMEOUT_S,
            "retries": {"mode": "standard", "total_max_attempts": ATTEMPTS},
            "max_pool_connections": CONNECTIONS,
        }
        if self.path_style:
            config["s3"] = {"addressing_style": "path"}
        client = {"endpoint_url": self.endpoint, "region_name": self.region}
        return {
            "config_kwargs": config,
            "client_kwargs": {name: value for name, value in client.items() if value},
        }


AWS = S3()
"""S3 as the AWS libraries find it."""


def _parse_endpoint(text: str, variable: str) -> str:
    try:
        parts = urlsplit(text)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadRequest(f"{variable}: is not a URL.") from None
    if parts.username is not None or parts.password is not None:
        raise BadRequest(f"{variable}: must hold no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    if text and (not is_plain or parts.path not in ("", "/") or parts.query or parts.fragment):
        raise BadRequest(f"{variable}: must be a URL such as https://s3.example.org:9000, without path or query.")
    return text.rstrip("/")


def _parse_region(text: str, variable: str) -> str:
    if not _REGION.fullmatch(text):
        raise BadRequest(f"{variable}: a region is made of letters, digits and hyphens.")
    return text


def _parse_role(text: str, variable: str) -> str:
    if text and not _ROLE.fullmatch(text):
        raise BadRequest(f"{variable}: must be the name of a role, such as arn:aws:iam::123456789012:role/lake.")
    return text


def parse_switch(text: str, variable: str) -> bool:
    """What a variable says that is true or false; empty is false.  BadRequest, which names the variable alone."""
    if text.lower() not in _SWITCH:
        raise BadRequest(f"{variable}: write true or false.")
    return _SWITCH[text.lower()]


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "endpoint": _parse_endpoint,
    "region": _parse_region,
    "path_style": parse_switch,
    "role_arn": _parse_role,
    "sts_endpoint": _parse_endpoint,
    "remote_signing": parse_switch,
}


def client_settings(places: Iterable[str], s3: S3) -> dict[str, str]:
    """What clients must know to find those of `places` that are on S3, in the words of Iceberg's clients."""
    if not any(place.startswith("s3://") for place in places):
        return {}
    found = {"s3.endpoint": s3.endpoint, "client.region": s3.region, "s3.region": s3.region}
    if s3.path_style:
        found["s3.path-style-access"] = "true"
    return {name: value for name, value in found.items() if value}


def open_file_system(location: str, s3: S3) -> Any:
    """fsspec's file system of `location`, of which it keeps one for each process.

    Not by fsspec.url_to_fs: that would take `::` in a name for a chain of file systems.
    """
    scheme = location.partition("://")[0]
    options = s3.file_system_options() if scheme == "s3" else {}
    # What a file system remembers of folders may be old, and is never forgotten.
    found = fsspec.filesystem(scheme, use_listings_cache=False, **options)
    if scheme == "s3":
        found.retries = 1  # botocore tries again; s3fs would do all of that several times over
    return found


class FileSystem:
    """The file system of a location, with its calls bounded in time.  Raises what the libraries raise."""

    def __init__(self, location: str, s3: S3) -> None:
        self._fs = open_file_system(location, s3)
        self._path = self._fs._strip_protocol(location)
        self._limit = {"timeout": CALL_TIMEOUT_S} if isinstance(self._fs, AsyncFileSystem) else {}

    def read(self, max_bytes: int) -> bytes:
        """The file, or its first `max_bytes`."""
        try:
            data: bytes = self._fs.cat_file(self._path, start=0, end=max_bytes, **self._limit)
        except OSError as error:
            if error.errno == errno.EINVAL:  # for S3, an empty file has no range
                return b""
            raise
        return data

    def create(self, data: bytes) -> None:
        """Write a file that is not there yet.

        A repeated attempt meets what an earlier one wrote whose answer was lost: names are used once, so a file
        with just this content is that one.
        """
        try:
            self._fs.pipe_file(self._path, data, mode="create", **self._limit)
        except Exception:
            if not self._holds(data):
                raise

    def remove(self) -> None:
        self._fs.rm_file(self._path, **self._limit)

    def _holds(self, data: bytes) -> bool:
        try:
            return self.read(len(data) + 1) == data
        except Exception:  # then it is unknown, and the first error tells more
            return False


def check_scheme(location: str, field: str) -> None:
    """MachineNotReady when the package for the scheme of `location` is missing; BadRequest when there is none."""
    scheme = location.partition("://")[0]
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError):
        if scheme in _EXTRAS:
            raise MachineNotReady(
                f"{field}: {scheme}:// needs a package that is not installed; install nessie-ops[{_EXTRAS[scheme]}]."
            ) from None
        raise BadRequest(f"{field}: {scheme}:// is not a file system here; use file, s3, gs or abfs.") from None
