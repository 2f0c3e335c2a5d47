"""Cost of one-key commits, lookups, branches and diffs as the number of tables grows, on SQLite.

    .venv/bin/python -m benchmarks.kernel [--tables 100 10000 100000] [--commits 300] [--target 160]

Prints one row per number of tables: CPU and wall milliseconds, rows and bytes per commit.  `--target`
builds the index with another node size, which is how the frozen one was chosen (docs/format.md).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from nessie_ops.model import NO_ANCESTOR, ContentKey, IcebergTable, Namespace, NewCommit, Put, ReferenceType, with_id
from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore, tree

COLUMNS = "tables commit_cpu_ms commit_ms nodes/commit bytes/commit branch_ms get_cold_rows diff10_ms diff10_cold_rows"
BATCH = 10_000


def table(n: int) -> IcebergTable:
    location = f"s3://warehouse/db/table_{n:07}_0b9f6b1e/metadata/00001-0f4f4cf7-6a1e-4a5e-9d55-{n:012}.metadata.json"
    return IcebergTable(metadata_location=location, snapshot_id=n, schema_id=0, spec_id=0, sort_order_id=0)


def key(n: int) -> ContentKey:
    return ContentKey(("db", f"table_{n:07}"))


def fill(versions: VersionStore, tables: int) -> None:
    first = [Put(ContentKey(("db",)), Namespace(elements=("db",)))]
    head = versions.commit("main", NO_ANCESTOR, NewCommit(message="namespace"), first).target_branch.hash
    for start in range(0, tables, BATCH):
        puts = [Put(key(n), table(n)) for n in range(start, min(start + BATCH, tables))]
        head = versions.commit("main", head, NewCommit(message="fill"), puts).target_branch.hash


def measure(folder: Path, tables: int, commits: int) -> list[float]:
    path = folder / f"{tables}.db"
    store = Store.open(f"sqlite:///{path}")
    versions = VersionStore(store)
    fill(versions, tables)
    head = versions.get_reference("main").hash
    store.writes.clear()
    size = _size(path)
    cpu, wall = time.process_time(), time.perf_counter()
    base = head
    for n in range(commits):
        name = key(n * 7919 % tables)
        content = versions.get_contents(head, [name])[name]
        put = Put(name, with_id(table(tables + n), str(content.id)))
        head = versions.commit("main", head, NewCommit(message="update"), [put]).target_branch.hash
        if n == 9:
            ten = head
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    nodes, grown = store.writes["node"], _size(path) - size
    start = time.perf_counter()
    for n in range(20):
        versions.create_reference(ReferenceType.BRANCH, f"b{n}", head)
    branch = (time.perf_counter() - start) / 20
    store.close()

    cold = Store.open(f"sqlite:///{path}", cache=Cache())
    versions = VersionStore(cold)
    versions.get_contents(head, [key(tables // 2)])
    get_rows = cold.reads["node"]
    cold.close()
    cold = Store.open(f"sqlite:///{path}", cache=Cache())
    versions = VersionStore(cold)
    start = time.perf_counter()
    assert len(versions.diff(base, ten)) == 10
    diff_s, diff_rows = time.perf_counter() - start, cold.reads["node"]
    cold.close()
    return [
        tables,
        cpu / commits * 1e3,
        wall / commits * 1e3,
        nodes / commits,
        grown / commits,
        branch * 1e3,
        get_rows,
        diff_s * 1e3,
        diff_rows,
    ]


def _size(path: Path) -> int:
    """Bytes of the database once all of its log is in it."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return os.path.getsize(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--target", type=int, default=tree.TARGET)
    options = parser.parse_args()
    tree.THRESHOLDS[:] = tree._thresholds(options.target)
    print("\t".join(COLUMNS.split()))
    with tempfile.TemporaryDirectory() as folder:
        for tables in options.tables:
            print("\t".join(f"{value:.4g}" for value in measure(Path(folder), tables, options.commits)), flush=True)


if __name__ == "__main__":
    main()
