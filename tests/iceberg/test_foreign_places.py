"""Locations in what came by other ways than the Iceberg API: registered files, and contents that Nessie clients put."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy

import pytest

from nessie_ops.model import ContentKey, Namespace
from tests.iceberg.helpers import SCHEMA, Json, create, error_of
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
    table_at,
    view_at,
    ways_out,
)


def inner(base: Json, **changes: object) -> Json:
    return {**deepcopy(base), **{name.replace("_", "-"): value for name, value in changes.items()}}


Change = Callable[[Json, str], Json]


def property_of(name: str) -> Change:
    return lambda base, location: inner(base, properties={"gc.enabled": "false", name: location})


TABLE_FILES: dict[str, Change] = {
    "location": lambda t, x: inner(t, location=x),
    "manifest-list": lambda t, x: inner(t, snapshots=[snapshot(x)]),
    "manifests": lambda t, x: inner(t, snapshots=[{**snapshot(t["location"] + "/m"), "manifests": [x]}]),
    "metadata-log": lambda t, x: inner(t, metadata_log=[{"metadata-file": x, "timestamp-ms": 1}]),
    "statistics[0]": lambda t, x: inner(t, statistics=[statistics(x)]),
    "partition-statistics[0]": lambda t, x: inner(t, partition_statistics=[statistics(x)]),
    **{name: property_of(name) for name in PATHS},
}
VIEW_FILES: dict[str, Change] = {"location": TABLE_FILES["location"], PATHS[1]: property_of(PATHS[1])}


def save(site: Site, metadata: Json) -> str:
    path = site.root / "wh" / f"{next(NUMBERS)}.metadata.json"
    path.write_text(json.dumps(metadata))
    return path.as_uri()


def all_or_some(site: Site, field: str) -> list[str]:
    """All ways out for one field and some for the others, since one function looks at them all."""
    return ways_out(site.root) if field == "location" else ways_out(site.root)[::8]


@pytest.mark.parametrize("field", TABLE_FILES)
def test_what_a_table_file_names(site: Site, field: str) -> None:
    """Nobody can bring in by the file what is refused in a request, registering it or through the Nessie API."""
    for location in all_or_some(site, field):
        file = save(site, TABLE_FILES[field](site.table["metadata"], location))
        refused(site, f"tables/{site.put(table_at(file))}", "register", file, field)
    good = save(site, TABLE_FILES[field](site.table["metadata"], f"{site.warehouse}/x/y"))
    assert post(site, "register", **{"metadata-location": good}).status_code == 200


@pytest.mark.parametrize("field", VIEW_FILES)
def test_what_a_view_file_names(site: Site, field: str) -> None:
    for location in all_or_some(site, field):
        file = save(site, VIEW_FILES[field](site.view["metadata"], location))
        refused(site, f"views/{site.put(view_at(file))}", "register-view", file, field)
    good = save(site, VIEW_FILES[field](site.view["metadata"], f"{site.warehouse}/x/y"))
    assert post(site, "register-view", **{"metadata-location": good}).status_code == 200


@pytest.mark.parametrize("folder", ["tables", "views"])
def test_contents_put_by_clients_of_the_nessie_api(site: Site, folder: str) -> None:
    for location in filter(None, ways_out(site.root)):
        path = f"{folder}/{site.put(table_at(location) if folder == 'tables' else view_at(location))}"
        refused(site, path, "register" if folder == "tables" else "register-view", location, "metadata-location")
        assert site.http.delete(f"/namespaces/db/{path}").status_code == 204, "what is wrong can be dropped"


def refused(site: Site, path: str, register: str, file: str, word: str) -> None:
    """The content at `path` can be neither read nor changed, nor its file registered, and nothing is written."""
    before = site.state()
    for answer in (
        site.http.get(f"/namespaces/db/{path}"),
        commit(site, set_property("a", "1"), path=path),
        post(site, register, **{"metadata-location": file}),
    ):
        code, kind, message = error_of(answer)
        assert (code, kind) == (400, "BadRequestException") and word in message, (file, message)
        assert "secret" not in message
    assert site.state() == before


def test_namespaces_put_by_clients_of_the_nessie_api(site: Site) -> None:
    """They are shown as they are and can be repaired; nothing comes to lie where they lead."""
    for location in filter(None, ways_out(site.root)[::3]):
        name = f"n{next(NUMBERS)}"
        site.commit(ContentKey.of(name), Namespace(elements=(name,), properties={"location": location}))
        child = site.http.post("/namespaces", json={"namespace": [name, "child"]})
        assert (child.status_code, child.json()["properties"]) == (200, {})
        for path, own in ((name, {"location": location}), (f"{name}%1Fchild", {})):
            shown = site.http.get(f"/namespaces/{path}")
            assert (shown.status_code, shown.json()["properties"]) == (200, own)
            before = site.state()
            for extra in ({}, {"stage-create": True}):
                body = {"name": "t", "schema": SCHEMA, **extra}
                code, kind, message = error_of(site.http.post(f"/namespaces/{path}/tables", json=body))
                assert (code, kind) == (400, "BadRequestException") and f"location of namespace {name}" in message
            assert site.state() == before
            given = f"{site.warehouse}/given/{next(NUMBERS)}"
            create(site.http, f"/namespaces/{path}", "given", location=given)
            assert staged(site, given, path).status_code == 200
        repair = {"removals": ["location"]}
        assert site.http.post(f"/namespaces/{name}/properties", json=repair).status_code == 200
        create(site.http, f"/namespaces/{name}%1Fchild", "t")


def test_a_table_is_no_view(site: Site) -> None:
    """Also when the file is in the cache, as the right kind."""
    table, view = site.table["metadata-location"], site.view["metadata-location"]
    for _ in range(2):
        for folder, content, kind in (
            ("tables", table_at(view), "table"),
            ("views", view_at(table), "view"),
        ):
            name = site.put(content)
            path = f"{folder}/{name}"
            for answer in (site.http.get(f"/namespaces/db/{path}"), commit(site, set_property("a", "1"), path=path)):
                code, error, message = error_of(answer)
                assert (code, error) == (400, "BadRequestException") and f"not valid Iceberg {kind}" in message


@pytest.mark.parametrize("file", ["{}", '{"refs": null}', '{"format-version": 2, "location": 1, "last-column-id": 1}'])
def test_other_json_is_neither(site: Site, file: str) -> None:
    location = save(site, json.loads(file))
    for folder, content in (
        ("tables", table_at(location)),
        ("views", view_at(location)),
    ):
        assert error_of(site.http.get(f"/namespaces/db/{folder}/{site.put(content)}"))[0] == 400


def test_symbolic_links_that_lead_out(site: Site) -> None:
    outside, inside = site.root / "outside", site.root / "wh" / "real"
    inside.mkdir(exist_ok=True)
    for name, target in (
        ("dir", outside),
        ("dangling", outside / "new"),
        ("in", inside),
        ("ok", site.root / "allowed"),
    ):
        (site.root / "wh" / name).symlink_to(target)
    (site.root / "wh" / "file").symlink_to(outside / "x")
    for name in ("dir/x", "dir/none", "file"):
        location = f"{site.warehouse}/{name}"
        table = site.put(table_at(location))
        for answer in (
            site.http.get(f"/namespaces/db/tables/{table}"),
            post(site, "register", **{"metadata-location": location}),
            post(site, "register-view", **{"metadata-location": location}),
        ):
            code, _, message = error_of(answer)
            assert code == 400 and "symbolic link" in message
    before = site.state()
    for name in ("dir", "dangling"):
        location = f"{site.warehouse}/{name}/t"
        answers = [post(site, "tables", location=location), of_view(site, location=location)]
        answers += [commit(site, set_property(path, location)) for path in PATHS]
        answers += [post(site, "tables", properties={path: location}) for path in PATHS]
        answers += [post(site, "tables", location=location, **{"stage-create": True})]
        answers += [commit(site, set_property(PATHS[1], location), path="views/v")]
        for code, _, message in map(error_of, answers):
            assert code == 400 and "symbolic link" in message
    assert site.state() == before
    for name in ("in", "ok"):
        made = post(site, "tables", location=f"{site.warehouse}/{name}/t{next(NUMBERS)}")
        assert made.status_code == 200, made.text
        assert post(site, "register", **{"metadata-location": made.json()["metadata-location"]}).status_code == 200
