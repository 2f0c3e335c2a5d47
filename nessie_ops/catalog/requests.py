"""Requests of the Iceberg REST protocol as values.  Lenient: unknown fields are ignored, optional ones may be absent.

Schemas, partition specs, updates and requirements stay plain JSON here: PyIceberg's models parse them,
but its models of whole requests demand fields that clients leave out (`identifier`, `location`).
"""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]
Properties = dict[str, str]


class _Request(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    pass


class Identifier(_Request, frozen=True):
    """A table or view by name; absent in a commit to the table or view that the URL names."""

    namespace: tuple[str, ...]
    name: str


class CreateNamespace(_Request, frozen=True):
    namespace: tuple[str, ...]
    properties: Properties | None = None


class UpdateProperties(_Request, frozen=True):
    removals: tuple[str, ...] | None = None
    updates: Properties | None = None


class CreateTable(_Request, frozen=True):
    name: str
    schema: Json
    location: str | None = None
    partition_spec: Json | None = None
    write_order: Json | None = None
    stage_create: bool | None = None
    properties: Properties | None = None


class Commit(_Request, frozen=True):
    """Requirements and updates of one table or view."""

    identifier: Identifier | None = None
    requirements: tuple[Json, ...] = ()
    updates: tuple[Json, ...] = ()


class CommitTransaction(_Request, frozen=True):
    table_changes: tuple[Commit, ...]


class Register(_Request, frozen=True):
    name: str
    metadata_location: str
    overwrite: bool = False


class Rename(_Request, frozen=True):
    source: Identifier
    destination: Identifier


class CreateView(_Request, frozen=True):
    name: str
    schema: Json
    view_version: Json
    location: str | None = None
    properties: Properties | None = None
