"""Real tables for whole collections: made with PyIceberg, on a disk or in a bucket, in a catalog on any database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.model import ReferenceType
from tests.buckets import Buckets

SCHEMA = pa.schema([("id", pa.int64())])
LOG_OF_ONE = {"write.metadata.previous-versions-max": "1"}


class Place(NamedTuple):
    """A warehouse; `options` are the command line's, and `keys` what PyIceberg finds its files by, while that lasts."""

    warehouse: str
    options: tuple[str, ...]
    list_files: Callable[[], set[str]]
    keys: Callable[[], AbstractContextManager[None]]


def on_disk(folder: Path) -> Place:
    def list_files() -> set[str]:
        return {f"file://{path}" for path in folder.rglob("*") if path.is_file()}

    return Place(f"file://{folder}", (), list_files, lambda: _environment({}))


def in_bucket(buckets: Buckets) -> Place:
    """A new bucket; whoever collects is told where it is and has no keys in the environment."""
    bucket, client = buckets.create(), buckets.client()

    def list_files() -> set[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {f"s3://{bucket}/{row['Key']}" for page in pages for row in page.get("Contents", ())}

    properties = {
        "s3.endpoint": buckets.endpoint,
        "s3.path-style-access": "true",
        "client.region": buckets.settings.region,
        "s3.access-key-id": buckets.key,
        "s3.secret-access-key": buckets.secret,
    }
    option = ",".join(f"{name}={value}" for name, value in properties.items())
    return Place(f"s3://{bucket}/wh", ("-I", option), list_files, lambda: _environment(buckets.environment))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


class Site(NamedTuple):
    """Tables in a place, and their catalog in the database `store`."""

    place: Place
    store: str

    @contextmanager
    def open(self) -> Iterator[NessieOpsCatalog]:
        with (
            self.place.keys(),
            NessieOpsCatalog("lake", uri=self.store, warehouse=self.place.warehouse) as catalog,
        ):
            yield catalog

    def fill(self) -> None:
        """Tables with a history: a tag, a branch, one that was thrown away, a dropped table, a job that died."""
        with self.open() as catalog:
            versions = catalog.version_store
            catalog.create_namespace("db")
            first = catalog.create_table("db.a", SCHEMA, properties=LOG_OF_ONE)
            first.append(_rows(1))
            second = catalog.create_table("db.b", SCHEMA)
            second.append(_rows(3, 4))
            head = versions.resolve("main").hash
            versions.create_reference(ReferenceType.TAG, "v1", head)
            for name in ("dev", "thrown"):
                versions.create_reference(ReferenceType.BRANCH, name, head)
                catalog.on(name).load_table("db.a").append(_rows(7))
            versions.delete_reference("thrown", None)
            for number in (2, 5):
                first.append(_rows(number))
            first.overwrite(_rows(6), overwrite_filter="id < 3")
            catalog.create_table("db.gone", SCHEMA).append(_rows(8))
            catalog.drop_table("db.gone")
            with first.io.new_output(f"{first.location()}/data/part-1 of%2.parquet").create() as orphan:
                orphan.write(b"PAR1")

    def find_needed(self) -> set[str]:
        """The files of all tables of all references, by PyIceberg."""
        found: set[str] = set()
        with self.open() as catalog:
            for reference in catalog.version_store.list_references():
                at = catalog.on(reference.name)
                for table in map(at.load_table, at.list_tables("db")):
                    found.add(table.metadata_location)
                    found.update(entry.metadata_file for entry in table.metadata.metadata_log)
                    for snapshot in table.snapshots():
                        found.add(snapshot.manifest_list)
                        for manifest in snapshot.manifests(table.io):
                            found.add(manifest.manifest_path)
                            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                            found.update(entry.data_file.file_path for entry in entries)
        return found

    def read(self) -> dict[str, list[int]]:
        """The rows of every table of every reference."""
        with self.open() as catalog:
            return {
                f"{reference.name} {'.'.join(name)}": sorted(
                    catalog.on(reference.name).load_table(name).scan().to_arrow()["id"].to_pylist()
                )
                for reference in catalog.version_store.list_references()
                for name in catalog.on(reference.name).list_tables("db")
            }


ROWS = {
    "main db.a": [5, 6],
    "main db.b": [3, 4],
    "dev db.a": [1, 7],
    "dev db.b": [3, 4],
    "v1 db.a": [1],
    "v1 db.b": [3, 4],
}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)
