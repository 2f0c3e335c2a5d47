"""Snapshots: branches and tags of a table, time travel, rollback, expiry, statistics, metadata tables."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from tests.iceberg.contract.helpers import batch, ids, snapshot_of


@pytest.fixture
def grown(table: Table) -> Table:
    """A table of three snapshots."""
    for number in (1, 2, 3):
        table.append(batch(number))
    return table


def test_time_travel(catalog: Catalog, grown: Table) -> None:
    first, second, third = (entry.snapshot_id for entry in catalog.load_table(grown.name()).history())
    assert [ids(grown, snapshot_id=at) for at in (first, second, third)] == [[1], [1, 2], [1, 2, 3]]
    at = grown.snapshot_as_of_timestamp(grown.history()[1].timestamp_ms)
    assert at is not None
    assert at.snapshot_id == second


def test_branches_and_tags(catalog: Catalog, grown: Table) -> None:
    first = grown.history()[0].snapshot_id
    grown.manage_snapshots().create_tag(first, "v1", max_ref_age_ms=10**12).create_branch(first, "audit").commit()
    grown.append(batch(9), branch="audit")
    loaded = catalog.load_table(grown.name())
    assert sorted(loaded.refs()) == ["audit", "main", "v1"]
    assert loaded.refs()["v1"].max_ref_age_ms == 10**12
    assert sorted(loaded.scan().use_ref("audit").to_arrow()["id"].to_pylist()) == [1, 9]
    assert loaded.scan().use_ref("v1").to_arrow()["id"].to_pylist() == [1]
    assert ids(loaded) == [1, 2, 3]
    loaded.manage_snapshots().remove_tag("v1").remove_branch("audit").commit()
    assert list(catalog.load_table(grown.name()).refs()) == ["main"]


def test_rollback(catalog: Catalog, grown: Table) -> None:
    first = grown.history()[0].snapshot_id
    grown.manage_snapshots().rollback_to_snapshot(first).commit()
    loaded = catalog.load_table(grown.name())
    assert (snapshot_of(loaded), ids(loaded), len(loaded.snapshots())) == (first, [1], 3)
    loaded.append(batch(4))
    assert ids(catalog.load_table(grown.name())) == [1, 4]


def test_expiry(catalog: Catalog, grown: Table) -> None:
    """What is expired is forgotten; its files stay, since another branch of the catalog may need them."""
    first, second, third = grown.snapshots()
    grown.manage_snapshots().create_tag(first.snapshot_id, "keep").commit()
    with pytest.raises(ValueError, match="protected"):
        grown.maintenance.expire_snapshots().by_id(first.snapshot_id)
    grown.maintenance.expire_snapshots().by_id(second.snapshot_id).commit()
    loaded = catalog.load_table(grown.name())
    assert [snapshot.snapshot_id for snapshot in loaded.snapshots()] == [first.snapshot_id, third.snapshot_id]
    assert [entry.snapshot_id for entry in loaded.history()] == [third.snapshot_id]
    assert ids(loaded) == [1, 2, 3]
    assert loaded.io.new_input(second.manifest_list).exists()
    loaded.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(days=1)).commit()
    assert len(catalog.load_table(grown.name()).snapshots()) == 2


def test_metadata_tables(catalog: Catalog, grown: Table) -> None:
    grown.delete("id = 2")
    inspect = catalog.load_table(grown.name()).inspect
    assert inspect.snapshots()["operation"].to_pylist() == ["append", "append", "append", "delete"]
    assert inspect.history()["is_current_ancestor"].to_pylist() == [True] * 4
    assert inspect.refs()["name"].to_pylist() == ["main"]
    assert sum(inspect.files()["record_count"].to_pylist()) == 2
    assert inspect.entries().num_rows >= 2
    assert inspect.manifests().num_rows >= 1
    assert inspect.all_manifests().num_rows >= 3
    log = inspect.metadata_log_entries()["file"].to_pylist()
    assert len(log) == 5
    assert log[-1] == grown.metadata_location


def test_statistics(catalog: Catalog, grown: Table) -> None:
    at = snapshot_of(grown)
    blob = BlobMetadata(
        **{"type": "apache-datasketches-theta-v1", "snapshot-id": at, "sequence-number": 3, "fields": [1]}
    )
    file = StatisticsFile(
        **{
            "snapshot-id": at,
            "statistics-path": f"{grown.location()}/metadata/{at}.puffin",
            "file-size-in-bytes": 10,
            "file-footer-size-in-bytes": 5,
            "blob-metadata": [blob],
        }
    )
    with grown.update_statistics() as update:
        update.set_statistics(file)
    assert [found.snapshot_id for found in catalog.load_table(grown.name()).metadata.statistics] == [at]
    with grown.update_statistics() as update:
        update.remove_statistics(at)
    assert catalog.load_table(grown.name()).metadata.statistics == []
