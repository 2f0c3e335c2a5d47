"""Many writers on one branch: of different tables none disturbs another; of one, none is lost or refused in vain."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from nessie_ops.client import NessieClient
from tests.iceberg.helpers import Json

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


def in_parallel(*requests: Callable[[], httpx.Response]) -> list[int]:
    """The status codes of requests that begin at the same time."""
    start = Barrier(len(requests))

    def send(request: Callable[[], httpx.Response]) -> int:
        start.wait()
        return request().status_code

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(send, requests))


def set_property(http: httpx.Client, address: str, name: str) -> Callable[[], httpx.Response]:
    return lambda: http.post(address, json={"updates": [{"action": "set-properties", "updates": {name: "x"}}]})


def test_changes_whose_requirements_hold_are_all_made(http: httpx.Client, db: str, table: Json) -> None:
    names = [f"p{n}" for n in range(WRITERS)]
    assert in_parallel(*(set_property(http, f"{db}/tables/t", name) for name in names)) == [200] * WRITERS
    properties = http.get(f"{db}/tables/t").json()["metadata"]["properties"]
    assert set(names) <= properties.keys()
    location = table["metadata-location"].removeprefix("file://")
    assert len(list(Path(location).parent.iterdir())) == 1 + WRITERS, "files of lost races stay"


def test_properties_of_a_namespace_are_all_set(http: httpx.Client, db: str) -> None:
    def update(name: str) -> Callable[[], httpx.Response]:
        return lambda: http.post(f"{db}/properties", json={"updates": {name: "x"}})

    names = [f"p{n}" for n in range(WRITERS)]
    assert in_parallel(*map(update, names)) == [200] * WRITERS
    assert set(names) <= http.get(db).json()["properties"].keys()


def test_a_rename_and_a_drop_take_the_table_as_it_is(http: httpx.Client, db: str, namespace: str, table: Json) -> None:
    target = {"namespace": [namespace], "name": "u"}
    rename = {"source": {**target, "name": "t"}, "destination": target}
    # Who is late does not find the table.
    changes = [set_property(http, f"{db}/tables/t", f"p{n}") for n in range(WRITERS - 1)]
    first, *others = in_parallel(lambda: http.post("/v1/main/tables/rename", json=rename), *changes)
    assert (first, set(others) <= {200, 404}) == (204, True)
    changes = [set_property(http, f"{db}/tables/u", f"p{n}") for n in range(WRITERS - 1)]
    first, *others = in_parallel(lambda: http.delete(f"{db}/tables/u"), *changes)
    assert (first, set(others) <= {200, 404}) == (204, True)
    assert http.head(f"{db}/tables/u").status_code == 404
