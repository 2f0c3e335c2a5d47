"""Many writers on one branch: of different tables they do not disturb each other, of one table none is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from nessie_ops.client import NessieClient

Connect = Callable[[str], Catalog]

WRITERS = 6
ROUNDS = 4
SCHEMA = pa.schema([("writer", pa.int64()), ("round", pa.int64())])


def row(writer: int, round_number: int) -> pa.Table:
    return pa.table({"writer": [writer], "round": [round_number]}, schema=SCHEMA)


def rows_of(catalog: Catalog, name: str) -> list[tuple[int, int]]:
    found = catalog.load_table(name).scan().to_arrow()
    return sorted(zip(found["writer"].to_pylist(), found["round"].to_pylist(), strict=True))


def test_different_tables_never_conflict(connect: Connect, ref: str, namespace: str) -> None:
    catalog = connect(ref)
    catalog.create_namespace(namespace)
    start = Barrier(WRITERS)

    def write(writer: int) -> None:
        own = connect(ref)
        # No retries: the first refused commit of any kind fails the test.
        table = own.create_table(f"{namespace}.t{writer}", SCHEMA, properties={"commit.retry.num-retries": "0"})
        start.wait()
        for number in range(ROUNDS):
            table.append(row(writer, number))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    for writer in range(WRITERS):
        assert rows_of(catalog, f"{namespace}.t{writer}") == [(writer, number) for number in range(ROUNDS)]


def test_one_table_loses_nothing(connect: Connect, ref: str, namespace: str) -> None:
    catalog = connect(ref)
    catalog.create_namespace(namespace)
    properties = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "50"}
    catalog.create_table(f"{namespace}.t", SCHEMA, properties=properties)
    start = Barrier(WRITERS)

    def write(writer: int) -> None:
        table = connect(ref).load_table(f"{namespace}.t")
        start.wait()
        for number in range(ROUNDS):
            table.append(row(writer, number))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert rows_of(catalog, f"{namespace}.t") == [(w, n) for w in range(WRITERS) for n in range(ROUNDS)]
    assert len(catalog.load_table(f"{namespace}.t").history()) == WRITERS * ROUNDS


def test_a_refused_commit_is_refused_as_such(connect: Connect, namespace: str) -> None:
    """Two clients that saw the same state: one wins, the other is told, and the table is the winner's."""
    catalog = connect("main")
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.t", SCHEMA, properties={"commit.retry.num-retries": "0"})
    start = Barrier(WRITERS)

    def write(writer: int) -> bool:
        own = connect("main").load_table(f"{namespace}.t")
        start.wait()
        try:
            own.append(row(writer, 0))
        except CommitFailedException:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    assert rows_of(catalog, f"{namespace}.t") == [(writer, 0) for writer in range(WRITERS) if won[writer]]
    assert any(won)
    assert len(table.refresh().history()) == sum(won)


def test_one_name_is_created_once(http: httpx.Client, nessie: NessieClient, namespace: str) -> None:
    http.post("/v1/main/namespaces", json={"namespace": [namespace]})
    body = {"name": "t", "schema": {"type": "struct", "fields": []}}
    start = Barrier(WRITERS)

    def create(_writer: int) -> int:
        start.wait()
        return http.post(f"/v1/main/namespaces/{namespace}/tables", json=body).status_code

    with ThreadPoolExecutor(WRITERS) as pool:
        codes = sorted(pool.map(create, range(WRITERS)))
    assert codes == [200] + [409] * (WRITERS - 1)
    messages = [entry.commit_meta.message for entry in nessie.list_log(nessie.get_reference("main").hash, limit=2)]
    assert messages == [f"create table {namespace}.t", f"create namespace {namespace}"]
