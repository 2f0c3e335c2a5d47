"""A plain Iceberg catalog is collected like any other: what no snapshot of a table needs goes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog as Plain
from pyiceberg.catalog.sql import SqlCatalog

from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.plain import PlainCatalog
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.storage import Stores
from nessie_ops.store.livesets import LiveSets

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("plain", uri=f"sqlite:///{tmp_path}/plain.db", warehouse=f"file://{tmp_path}/lake")
    yield catalog
    catalog.close()


def collect(catalog: Plain, policy: str, *, only_named: bool = False) -> expire.Swept:
    """Mark and sweep, a day after all that is there."""
    now = datetime.now(UTC) + timedelta(days=2)
    sets = LiveSets.open("sqlite://")
    try:
        context = Context(lambda: now, "me", lambda step, count: None)
        source = PlainCatalog(catalog)
        identify.begin(sets, source, "id", MarkSettings("plain", Policies(now, policy)), context)
        identify.identify(sets, source, "id", context)
        settings = expire.SweepSettings(is_forced=True, only_named=only_named)
        return expire.sweep(sets, "id", source, Stores(), settings, context)
    finally:
        sets.close()


def test_orphans_go_and_snapshots_stay(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_namespace("a")
    catalog.create_namespace("a.b")
    for name in ("a.t", "a.b.t"):
        table = catalog.create_table(name, ROWS.schema)
        for _ in range(3):
            table.append(ROWS)
    orphan = Path(str(table.location()).removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    swept = collect(catalog, "NONE")
    assert not swept.stopped
    assert before - {path for path in tmp_path.rglob("*") if path.is_file()} == {orphan}
    for name in ("a.t", "a.b.t"):
        for snapshot in catalog.load_table(name).snapshots():
            assert catalog.load_table(name).scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0


def test_policies_choose_snapshots(catalog: SqlCatalog) -> None:
    """The last two snapshots stay, and the data that they need."""
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", ROWS.schema)
    table.append(ROWS)
    for _ in range(2):
        table.overwrite(ROWS)
    assert not collect(catalog, "2", only_named=True).stopped
    table = catalog.load_table("a.t")
    assert table.scan().to_arrow().num_rows == 2
    snapshots = sorted(table.snapshots(), key=lambda each: each.timestamp_ms)
    gone = [each for each in snapshots if not Path(each.manifest_list.removeprefix("file://")).exists()]
    assert gone == snapshots[:-2]
    assert gone


def test_a_catalog_without_tables(catalog: SqlCatalog) -> None:
    assert list(PlainCatalog(catalog).references()) == []
