"""Listings of namespaces with thousands of entries, on a kernel without server."""

from __future__ import annotations

import pytest

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.errors import NamespaceNotFound
from nessie_ops.model import ContentKey, IcebergTable, Namespace, NewCommit, Operation, Put
from nessie_ops.versioning import VersionStore

WIDE = 1200  # tables in one namespace: more than a scan and a page hold


@pytest.fixture(scope="module")
def catalog() -> IcebergCatalog:
    """`a`, `b` and `c` at the root; WIDE tables in `a.in` and in `b`, and one in `a`."""
    store = VersionStore.open("sqlite://")
    operations: list[Operation] = [
        namespace("a"),
        namespace("a", "in"),
        namespace("a", "in!"),
        namespace("b"),
        namespace("c"),
    ]
    operations += [table("a", "in", f"t{i:04}") for i in range(WIDE)]
    operations += [table("b", f"t{i:04}") for i in range(WIDE)]
    operations += [table("a", "last")]
    head = store.get_reference("main").hash
    store.commit("main", head, NewCommit(message="fill"), operations)
    return IcebergCatalog(store, "file:///wh")


def namespace(*elements: str) -> Put:
    return Put(ContentKey.of(*elements), Namespace(elements=elements))


def table(*elements: str) -> Put:
    content = IcebergTable(metadata_location="file:///wh/x", snapshot_id=-1, schema_id=0, spec_id=0, sort_order_id=0)
    return Put(ContentKey.of(*elements), content)


def test_large_children_are_passed_over(catalog: IcebergCatalog) -> None:
    at = catalog.resolve("main")
    a = ContentKey.of("a")
    assert catalog.namespaces.list_names(at) == (["a", "b", "c"], False)
    assert catalog.namespaces.list_names(at, a) == (["in", "in!"], False)
    assert catalog.tables.list_names(at, a) == (["last"], False)
    assert catalog.tables.list_names(at, ContentKey.of("c")) == ([], False)
    assert catalog.views.list_names(at, ContentKey.of("b")) == ([], False)


@pytest.mark.parametrize("limit", [1, 7, 400, 500, 501, 1000, WIDE - 1, WIDE, WIDE + 1])
def test_pages_add_up(catalog: IcebergCatalog, limit: int) -> None:
    at, b = catalog.resolve("main"), ContentKey.of("b")
    first = catalog.tables.list_names(at, b, limit=limit)
    assert first.names == [f"t{i:04}" for i in range(min(limit, WIDE))]
    assert first.more == (limit < WIDE)
    rest = catalog.tables.list_names(at, b, after=first.names[-1], limit=WIDE)
    assert first.names + rest.names == [f"t{i:04}" for i in range(WIDE)]
    assert not rest.more


def test_a_page_may_end_before_a_namespace(catalog: IcebergCatalog) -> None:
    at = catalog.resolve("main")
    first = catalog.namespaces.list_names(at, limit=1)
    assert first == (["a"], True)
    assert catalog.namespaces.list_names(at, after="a", limit=1) == (["b"], True)
    assert catalog.namespaces.list_names(at, after="b", limit=1) == (["c"], False)


def test_only_namespaces_hold_names(catalog: IcebergCatalog) -> None:
    at = catalog.resolve("main")
    for key in (ContentKey.of("nowhere"), ContentKey.of("a", "last")):
        with pytest.raises(NamespaceNotFound):
            catalog.tables.list_names(at, key)
