"""What a collection needs to know of table and view metadata.  Follows the Iceberg specifications, any version."""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple

import msgspec

from nessie_ops.catalog.livefiles import DamagedFile, FileKind, LiveFile

_GZIP = b"\x1f\x8b"
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that say where engines write files beside the table's location; the last two are old names."""


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None  # version 1 may name its manifests here


class _Statistics(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    statistics_path: str


class _Previous(msgspec.Struct, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, rename="kebab"):
    location: str | None = None  # functions may have none
    current_snapshot_id: int | None = None
    snapshots: tuple[_Snapshot, ...] | None = None
    statistics: tuple[_Statistics, ...] | None = None
    partition_statistics: tuple[_Statistics, ...] | None = None
    metadata_log: tuple[_Previous, ...] | None = None
    properties: dict[str, Any] | None = None


class Described(NamedTuple):
    """What a metadata file names: where its files lie, and the files by the snapshot that needs them.

    `location` is empty when it does not say; `paths` are folders beside `location` where engines were told to write.
    """

    location: str
    paths: list[str]
    current: int | None
    by_snapshot: dict[int, list[LiveFile]]
    others: list[LiveFile]
    """Previous metadata files, which hold nothing else live."""


def describe(raw: bytes) -> Described:
    """What a metadata file of a table, view or function names, gzip-compressed or not; DamagedFile."""
    try:
        found = msgspec.json.decode(gzip.decompress(raw) if raw.startswith(_GZIP) else raw, type=_Metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError, EOFError) as error:
        raise DamagedFile(f"is not Iceberg metadata: {error}") from error
    by_snapshot: dict[int, list[LiveFile]] = {}
    for snapshot in found.snapshots or ():
        if snapshot.manifest_list:
            files = [LiveFile(FileKind.MANIFEST_LIST, snapshot.manifest_list)]
        else:
            files = [LiveFile(FileKind.MANIFEST, manifest) for manifest in snapshot.manifests or ()]
        by_snapshot.setdefault(snapshot.snapshot_id, []).extend(files)
    for kind, rows in (
        (FileKind.STATISTICS, found.statistics),
        (FileKind.PARTITION_STATISTICS, found.partition_statistics),
    ):
        for row in rows or ():
            by_snapshot.setdefault(row.snapshot_id, []).append(LiveFile(kind, row.statistics_path))
    properties = found.properties or {}
    return Described(
        found.location or "",
        [str(properties[name]) for name in PATHS if properties.get(name)],
        found.current_snapshot_id,
        by_snapshot,
        [LiveFile(FileKind.METADATA, row.metadata_file) for row in found.metadata_log or ()],
    )
