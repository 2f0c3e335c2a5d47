"""Commits of other clients become observations of the assets that they changed, each once; without Spark."""

from __future__ import annotations

import dagster as dg
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, NewCommit, Put, ReferenceType, Transplant
from resources.catalog import CatalogResource
from schedules.observing import WATCH_VARIABLE, observe_commits
from tests.dagster.foreign import add_namespaces, fork, make_context
from tests.versioning.helpers import key, namespace, table


def write(client: NessieClient, path: str, n: int, branch: str = "main", meta: NewCommit | None = None) -> str:
    at = client.get_reference(branch).hash
    known = client.get_contents(at, [key(path)]).get(key(path))
    puts = [Put(key(path), table(n, str(known.id) if known else None))]
    meta = meta or NewCommit(message=f"by hand: {path}", authors=("ann",))
    return client.commit(branch, at, meta, puts).target_branch.hash


def tick(instance: dg.DagsterInstance, cursor: str | None) -> tuple[list[dg.AssetObservation], str]:
    context = dg.build_sensor_context(
        instance=instance, cursor=cursor, definitions=build(), resources={"catalog": CatalogResource()}
    )
    found = observe_commits(context)
    assert isinstance(found, dg.SensorResult) and found.cursor
    return list(found.asset_events), found.cursor  # type: ignore[arg-type]


def test_commits_of_others_are_observed_once(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = client.get_reference("main").hash
    client.commit(
        "main", start, NewCommit(message="n"), [Put(key(name), namespace(name)) for name in ("bronze", "silver")]
    )
    write(client, "bronze.flights", 1)
    seen, cursor = tick(instance, None)
    assert seen == [], "it begins now"

    at = write(client, "bronze.flights", 2)
    write(client, "silver.other", 1)  # no asset
    client.create_reference(ReferenceType.BRANCH, "etl/x", client.get_reference("main").hash)
    write(client, "silver.flights", 1, "etl/x")  # not watched
    ours = NewCommit(message="published", properties={"nessie_ops.run_id": ("7",)})
    write(client, "bronze.weather", 1, meta=ours)
    merged = {"nessie_ops.run_id": ("7", "8"), "nessie_ops.merge_request": ("3",)}
    change = write(client, "bronze.weather", 2, meta=NewCommit(message="Merge ci/pr-1", properties=merged))
    seen, after = tick(instance, cursor)
    assert [(row.asset_key.path, row.metadata["nessie/commit"].value) for row in seen] == [
        (["bronze", "flights"], at),
        (["bronze", "weather"], change),
    ]
    metadata = seen[0].metadata
    assert (metadata["author"].value, metadata["operation"].value) == ("ann", "PUT")
    assert tick(instance, cursor)[0][0].metadata == metadata, "a tick that is repeated sees the same"
    assert tick(instance, after) == ([], after)

    monkeypatch.setenv(WATCH_VARIABLE, "main|etl/.*")
    seen, _ = tick(instance, cursor)
    assert {row.metadata["nessie/reference"].value for row in seen} == {"main", "etl/x"}
    monkeypatch.setenv(WATCH_VARIABLE, "(")
    with pytest.raises(BadRequest, match=WATCH_VARIABLE):
        tick(instance, cursor)


@pytest.mark.parametrize("numbers", [("1", "2"), ("x",), ("-5",), ("9" * 30,), ("\u0663",)])
def test_a_commit_that_names_no_request_stops_nothing(
    client: NessieClient, instance: dg.DagsterInstance, numbers: tuple[str, ...]
) -> None:
    add_namespaces(client, "bronze")
    _, cursor = tick(instance, None)
    said = {"nessie_ops.root_run_id": ("7",), "nessie_ops.merge_request": numbers}
    write(client, "bronze.carriers", 1, meta=NewCommit(message="by anybody", properties=said))
    at = write(client, "bronze.airlines", len(numbers[0]))
    found = observe_commits(make_context(instance, cursor))
    assert isinstance(found, dg.SensorResult) and not found.run_requests
    assert [row.metadata["nessie/commit"].value for row in found.asset_events] == [at]


def test_without_the_catalog_nothing_is_lost_and_another_log_is_followed_from_its_end(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, cursor = tick(instance, None)
    at = write(client, "bronze.airports", 1)
    with monkeypatch.context() as patch:
        patch.setenv("NESSIE_OPS_URI", "http://127.0.0.1:1")
        context = dg.build_sensor_context(
            instance=instance, cursor=cursor, definitions=build(), resources={"catalog": CatalogResource()}
        )
        skipped = observe_commits(context)
    assert isinstance(skipped, dg.SkipReason) and f"goes on from number {cursor}" in str(skipped.skip_message)
    assert [row.metadata["nessie/commit"].value for row in tick(instance, cursor)[0]] == [at]
    assert tick(instance, "999999999") == ([], str(int(cursor) + 1)), "a restored catalog has a shorter log"


def test_an_event_of_many_commits_or_tables_leaves_none_out(client: NessieClient, instance: dg.DagsterInstance) -> None:
    add_namespaces(client, "bronze", "silver")
    begin = client.get_reference(fork(client, "etl/many")).hash
    written = [write(client, "bronze.weather", n, "etl/many") for n in range(12)]
    _, cursor = tick(instance, None)
    hashes = tuple(map(CommitHash, written))
    client.transplant("main", begin, Transplant(from_ref="etl/many", hashes=hashes, meta=NewCommit(message="")))
    seen, cursor = tick(instance, cursor)
    at = [entry.commit_meta.hash for entry in client.list_log(client.get_reference("main").hash, limit=12)]
    assert [row.metadata["nessie/commit"].value for row in seen] == at[::-1]

    puts = [Put(key(f"bronze.a{n:03}"), table(n)) for n in range(150)]
    puts.append(Put(key("silver.flights_weather"), table(1)))
    head = client.commit("main", at[0], NewCommit(message="many tables"), puts).target_branch.hash
    seen, _ = tick(instance, cursor)
    assert [(row.asset_key.path[-1], row.metadata["nessie/commit"].value) for row in seen] == [
        ("flights_weather", head)
    ]


def test_it_goes_on_where_it_stopped(client: NessieClient, instance: dg.DagsterInstance) -> None:
    _, cursor = tick(instance, None)
    commits = [write(client, "bronze.planes", n) for n in range(230)]
    seen = []
    while found := tick(instance, cursor):
        seen += [row.metadata["nessie/commit"].value for row in found[0]]
        if found[1] == cursor:
            break
        cursor = found[1]
    assert seen == commits
