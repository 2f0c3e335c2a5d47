"""Namespaces: nested, with any name, with properties."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    RESTError,
)

from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey, Namespace, NewCommit, Put
from tests.iceberg.contract.helpers import SCHEMA


def test_created_once(catalog: Catalog, namespace: str) -> None:
    assert not catalog.namespace_exists(namespace)
    catalog.create_namespace(namespace, {"team": "ops"})
    catalog.create_namespace_if_not_exists(namespace, {"team": "other"})
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    assert catalog.namespace_exists(namespace)
    assert (namespace,) in catalog.list_namespaces()
    assert catalog.load_namespace_properties(namespace)["team"] == "ops"


def test_a_table_has_the_name(catalog: Catalog, db: str) -> None:
    catalog.create_table(f"{db}.x", SCHEMA)
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(f"{db}.x")
    assert not catalog.namespace_exists(f"{db}.x")


def test_lists_children_alone(catalog: Catalog, db: str) -> None:
    below = [(db, "a"), (db, "a", "deep"), (db, "a", "deep", "er"), (db, "a1"), (db, "a_"), (db, "a%")]
    for name in below:
        catalog.create_namespace(name)
    assert set(catalog.list_namespaces(db)) == {(db, "a"), (db, "a1"), (db, "a_"), (db, "a%")}
    assert catalog.list_namespaces(f"{db}.a") == [(db, "a", "deep")]
    assert catalog.list_namespaces((db, "a", "deep", "er")) == []
    assert all(catalog.namespace_exists(name) for name in below)
    assert not catalog.namespace_exists((db, "b_"))


@pytest.mark.parametrize("name", ["größe", "数据", "a b", "in.ner", "ü/ö", "50%", "a+b", "🚀"])
def test_names_of_any_kind(catalog: Catalog, db: str, name: str) -> None:
    catalog.create_namespace((db, name), {"label": name})
    assert catalog.list_namespaces(db) == [(db, name)]
    assert catalog.load_namespace_properties((db, name))["label"] == name
    catalog.create_table((db, name, "t"), SCHEMA)
    assert catalog.list_tables((db, name)) == [(db, name, "t")]
    catalog.drop_table((db, name, "t"))
    catalog.drop_namespace((db, name))
    assert catalog.list_namespaces(db) == []


def test_the_parent_must_exist(catalog: Catalog, namespace: str) -> None:
    with pytest.raises((NoSuchNamespaceError, RESTError)):
        catalog.create_namespace((namespace, "child"))
    assert not catalog.namespace_exists(namespace)


@pytest.mark.parametrize("empty", [(), "", ("", "")])
def test_a_name_is_needed(catalog: Catalog, empty: str | tuple[str, ...]) -> None:
    with pytest.raises((NoSuchNamespaceError, BadRequestError)):
        catalog.create_namespace(empty)


def test_missing(catalog: Catalog, namespace: str) -> None:
    for call in (
        catalog.load_namespace_properties,
        catalog.drop_namespace,
        catalog.list_namespaces,
        catalog.list_tables,
        catalog.list_views,
        lambda name: catalog.update_namespace_properties(name, set(), {"a": "b"}),
    ):
        with pytest.raises(NoSuchNamespaceError, match=namespace):
            call(namespace)


def test_only_empty_ones_are_dropped(catalog: Catalog, db: str) -> None:
    catalog.create_namespace((db, "inner"))
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(db)
    catalog.create_table((db, "inner", "t"), SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace((db, "inner"))
    catalog.drop_table((db, "inner", "t"))
    catalog.drop_namespace((db, "inner"))
    catalog.drop_namespace(db)
    assert not catalog.namespace_exists(db)


def test_properties(catalog: Catalog, db: str) -> None:
    catalog.update_namespace_properties(db, None, {"a": "1", "b": "2", "c": "ü"})
    changes = catalog.update_namespace_properties(db, {"a", "never"}, {"b": "3", "d": "4"})
    assert (sorted(changes.updated), changes.removed, changes.missing) == (["b", "d"], ["a"], ["never"])
    found = catalog.load_namespace_properties(db)
    assert {name: found.get(name) for name in "abcd"} == {"a": None, "b": "3", "c": "ü", "d": "4"}
    with pytest.raises((ValueError, RESTError)):
        catalog.update_namespace_properties(db, {"b"}, {"b": "5"})
    with pytest.raises((ValueError, RESTError)):
        catalog.update_namespace_properties(db, None, {"b": None})
    assert catalog.load_namespace_properties(db) == found


def test_a_thousand_names(catalog: Catalog, nessie: NessieClient, db: str) -> None:
    """More than fit in a page."""
    names = [(db, f"n{number:04}") for number in range(1001)]
    puts = [Put(ContentKey(name), Namespace(elements=name)) for name in names]
    nessie.commit("main", nessie.get_reference("main").hash, NewCommit(message="many"), puts)
    assert catalog.list_namespaces(db) == names
