"""Every place of a request that holds a location, with all that leads out of the warehouse."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import httpx
import pytest

from nessie_ops.server.embedded import ensure_embedded
from tests.iceberg.helpers import SCHEMA, create, error_of
from tests.iceberg.sites import (
    NUMBERS,
    PATHS,
    Site,
    commit,
    of_view,
    post,
    set_property,
    snapshot,
    staged,
    statistics,
    ways_out,
)


def transaction(site: Site, location: str) -> httpx.Response:
    """A change of two tables of which one leads out: neither is made."""
    other = create(site.http, "/namespaces/db", f"n{next(NUMBERS)}")["metadata"]["location"]
    name = other.rpartition("/")[2].partition("_")[0]
    changes = [
        {"identifier": {"namespace": ["db"], "name": table}, "updates": [set_property("write.data.path", place)]}
        for table, place in ((name, f"{site.warehouse}/ok/{next(NUMBERS)}"), ("t", location))
    ]
    return site.http.post("/transactions/commit", json={"table-changes": changes})


def namespace(site: Site, location: str) -> httpx.Response:
    body = {"namespace": [f"n{next(NUMBERS)}"], "properties": {"location": location}}
    return site.http.post("/namespaces", json=body)


Place = Callable[[Site, str], httpx.Response]
REQUESTS: dict[str, tuple[str, Place]] = {
    "create": ("location", lambda s, x: post(s, "tables", location=x)),
    "stage-create": ("location", lambda s, x: post(s, "tables", location=x, **{"stage-create": True})),
    "end of a staged create": ("location", staged),
    "set-location": ("location", lambda s, x: commit(s, {"action": "set-location", "location": x})),
    "add-snapshot": ("manifest-list", lambda s, x: commit(s, {"action": "add-snapshot", "snapshot": snapshot(x)})),
    "set-statistics": (
        "statistics-path",
        lambda s, x: commit(s, {"action": "set-statistics", "snapshot-id": 1, "statistics": statistics(x)}),
    ),
    "set-partition-statistics": (
        "statistics-path",
        lambda s, x: commit(s, {"action": "set-partition-statistics", "partition-statistics": statistics(x)}),
    ),
    "namespace": ("properties.location", namespace),
    "namespace update": (
        "properties.location",
        lambda s, x: s.http.post("/namespaces/db/properties", json={"updates": {"location": x}}),
    ),
    "create view": ("location", lambda s, x: of_view(s, location=x)),
    "view's property": (PATHS[1], lambda s, x: of_view(s, properties={PATHS[1]: x})),
    "view's set-location": (
        "location",
        lambda s, x: commit(s, {"action": "set-location", "location": x}, path="views/v"),
    ),
    "view's set-properties": (PATHS[1], lambda s, x: commit(s, set_property(PATHS[1], x), path="views/v")),
    **{f"create {n}": (n, lambda s, x, n=n: post(s, "tables", properties={n: x})) for n in PATHS},  # type: ignore[misc]
    **{
        f"stage {n}": (n, lambda s, x, n=n: post(s, "tables", properties={n: x}, **{"stage-create": True}))
        for n in PATHS
    },  # type: ignore[misc]
    **{f"set {n}": (n, lambda s, x, n=n: commit(s, set_property(n, x))) for n in PATHS},  # type: ignore[misc]
}


@pytest.mark.parametrize("place", REQUESTS)
def test_requests(site: Site, place: str) -> None:
    word, send = REQUESTS[place]
    before = site.state()
    for location in ways_out(site.root):
        code, kind, message = error_of(send(site, location))
        assert (code, kind) == (400, "BadRequestException"), (location, message)
        assert word in message and "secret" not in message, (location, message)
    assert site.state() == before
    for good in (f"{site.warehouse}/{next(NUMBERS)}", f"file://{site.root}/allowed/x%20y/{next(NUMBERS)}"):
        answer = send(site, good)
        assert answer.status_code == 200, answer.text


def test_a_transaction_is_refused_whole(site: Site) -> None:
    assert transaction(site, f"{site.warehouse}/fine").status_code == 204
    for location in ways_out(site.root):
        code, _, message = error_of(transaction(site, location))
        assert code == 400 and "write.data.path" in message
        name = f"n{next(NUMBERS) - 2}"
        properties = site.http.get(f"/namespaces/db/tables/{name}").json()["metadata"]["properties"]
        assert "write.data.path" not in properties


def test_registering_what_lies_outside(site: Site) -> None:
    before = site.state()
    for path, location in itertools.product(("register", "register-view"), ways_out(site.root)):
        code, _, message = error_of(post(site, path, **{"metadata-location": location}))
        assert code == 400 and message.startswith("metadata-location"), (location, message)
    assert site.state() == before


def test_a_bucket_by_all_its_schemes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A staged create writes nothing, so no store is needed to see what is let in."""
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/catalog.db"
    uri = ensure_embedded(store, "s3://bucket/wh/orders", ("s3a://other",))
    with httpx.Client(base_url=f"{uri}/iceberg/v1/main", timeout=60) as http:
        assert http.post("/namespaces", json={"namespace": ["db"]}).status_code == 200

        def stage(location: str) -> httpx.Response:
            body = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": location}
            return http.post("/namespaces/db/tables", json=body)

        for scheme, place in itertools.product(("s3", "s3a", "s3n", "S3A"), ("bucket/wh/orders/t", "other", "other/x")):
            made = stage(f"{scheme}://{place}")
            assert made.status_code == 200, made.text
            assert made.json()["metadata"]["location"] == f"s3://{place}"
        for out in ("bucket/wh/orders2/t", "bucket/wh", "BUCKET/wh/orders/t", "other2/x", "bucket/wh/orders/%2e%2e/t"):
            code, kind, message = error_of(stage(f"s3a://{out}"))
            assert (code, kind) == (400, "BadRequestException") and message.startswith("location: ")
        for scheme in ("gs", "file", "http", "hdfs", "memory", "local"):
            assert error_of(stage(f"{scheme}://bucket/wh/orders/t"))[0] == 400
