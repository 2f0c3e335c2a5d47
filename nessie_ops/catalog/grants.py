"""What a client that is given access to a table's files may do: read and list them, and add files.

Invariant: no grant lets anybody delete, since branches share files, or write a metadata file, which is the catalog's
task, or reach a neighbour whose name begins alike.  Pure: knows neither credentials nor HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.outlines import folders_of
from nessie_ops.errors import BadRequest

Json = dict[str, Any]
METADATA_SUFFIX = ".metadata.json"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MEANINGFUL = re.compile(r"[*?$]")  # in the patterns of policies


class Grant(NamedTuple):
    """Access to what lies below `locations` (normal forms, none below another); without `may_write` to read alone."""

    locations: tuple[str, ...]
    may_write: bool

    def covers(self, location: str) -> bool:
        """Whether `location`, in normal form, lies below one of the grant's."""
        return any(location.startswith(f"{place}/") for place in self.locations)


class _Places(msgspec.Struct, frozen=True):
    location: str = ""
    properties: dict[str, str] | None = None


def grant_of(metadata: bytes, warehouse: Warehouse, *, may_write: bool) -> Grant:
    """The grant for a table of this metadata: its location and those that its properties name, if they are on S3.

    Outside the allowed places nothing is granted.
    """
    places = msgspec.json.decode(metadata, type=_Places)
    named = [text for _, text in folders_of(places.location, places.properties or {})]
    inside = [found for text in named if (found := _inside(text, warehouse))]
    return Grant(_outermost(inside), may_write)


def grant_unborn(base: str, wanted: str) -> Grant | None:
    """The grant for a table that is being created at a location of its own, `<base>_<uuid>`, which holds `wanted`."""
    match = re.match(f"{re.escape(base)}_{_UUID}(?=/)", wanted)
    return Grant((match[0],), may_write=True) if match else None


def _inside(text: str, warehouse: Warehouse) -> str | None:
    try:
        found = warehouse.check(text, "location")
    except BadRequest:
        return None
    return found if found.startswith("s3://") else None


def _outermost(locations: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for location in sorted(set(locations)):  # so that a folder comes before what it holds
        if not any(location.startswith(f"{place}/") for place in kept):
            kept.append(location)
    return tuple(kept)


def session_policy(grant: Grant, partition: str = "aws") -> str:
    """The grant as a session policy of AWS, as short as can be: AWS takes 2,048 characters."""
    places = [f"{location.removeprefix('s3://')}/".split("/", 1) for location in grant.locations]  # bucket, folder/
    arn = f"arn:{partition}:s3:::"
    files = [f"{arn}{bucket}/{_literal(folder)}*" for bucket, folder in places]
    reads = ["s3:GetObject"]
    writes = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"] if grant.may_write else []
    statements: list[Json] = [{"Effect": "Allow", "Action": reads + writes, "Resource": files}]
    for bucket in sorted({bucket for bucket, _ in places}):
        folders = [f"{_literal(folder)}*" for holder, folder in places if holder == bucket]
        limits = {"StringLike": {"s3:prefix": folders}}
        statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn + bucket, "Condition": limits})
    if grant.may_write:
        metadata = [f"{file}{METADATA_SUFFIX}" for file in files]
        statements.append({"Effect": "Deny", "Action": "s3:PutObject", "Resource": metadata})
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()


def _literal(text: str) -> str:
    return _MEANINGFUL.sub(lambda match: f"${{{match[0]}}}", text)
