"""Statements about what is under a key: namespaces, tables, views."""

from __future__ import annotations

import json

from msgspec import UNSET

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ContentNotFound, NamespaceAlreadyExists
from nessie_ops.model import (
    Branch,
    CommitHash,
    Content,
    ContentKey,
    ContentType,
    Delete,
    Namespace,
    NewCommit,
    Operation,
    Put,
)
from nessie_ops.sql.places import find
from nessie_ops.sql.statements import AlterNamespace, CreateNamespace, DropContent, RevertContent, Selection

_PAGE = 10_000
_WORDS = {
    ContentType.ICEBERG_TABLE: "table",
    ContentType.ICEBERG_VIEW: "view",
    ContentType.NAMESPACE: "namespace",
}


def get(client: NessieClient, at: CommitHash, kind: ContentType, key: ContentKey) -> Content:
    """What is under a key; ContentNotFound when it is nothing, or not of this kind."""
    found = client.get_contents(at, [key]).get(key)
    if found is None or found.type != kind:
        instead = f": it is a {_WORDS.get(found.type, found.type)}" if found else ""
        raise ContentNotFound(f"There is no {_WORDS[kind]} '{key}' at {at[:16]}{instead}.", key)
    return found


def list_contents(client: NessieClient, at: CommitHash, chosen: Selection) -> list[tuple[str, str]]:
    """(type, key), in key order."""
    filter = chosen.filter
    if chosen.starts_with or chosen.contains:
        filter = " && ".join(
            f"entry.encodedKey.{test}({json.dumps(text, ensure_ascii=False)})"
            for test, text in (("startsWith", chosen.starts_with), ("contains", chosen.contains))
            if text
        )
    rows: list[tuple[str, str]] = []
    first: ContentKey | None = None
    while True:
        page = client.list_entries(at, filter=filter, first=first, limit=_PAGE)
        rows += [(str(entry.type), str(entry.name)) for entry in page if entry.name != first]
        if len(page) < _PAGE:
            return rows
        first = page[-1].name


def change(client: NessieClient, branch: str, wanted: CreateNamespace | AlterNamespace | DropContent) -> None:
    """One commit on a branch; ContentNotFound, NamespaceAlreadyExists, ReferenceConflict (not empty)."""
    head = _get_branch(client, branch)
    operation: Operation
    if isinstance(wanted, CreateNamespace):
        if client.get_contents(head.hash, [wanted.key]):
            raise NamespaceAlreadyExists(f"There is a '{wanted.key}' on {head.name} already.", wanted.key)
        content = Namespace(elements=wanted.key.elements, properties=dict(wanted.properties) or UNSET)
        message, operation = f"Create namespace {wanted.key}", Put(wanted.key, content)
    elif isinstance(wanted, AlterNamespace):
        found = get(client, head.hash, ContentType.NAMESPACE, wanted.key)
        assert isinstance(found, Namespace)
        properties = (found.properties or {}) | dict(wanted.updates)
        missing = [name for name in wanted.removals if name not in properties]
        if missing:
            raise BadRequest(f"REMOVE: namespace '{wanted.key}' has no property {', '.join(missing)}.")
        kept = {name: value for name, value in properties.items() if name not in wanted.removals}
        content = Namespace(id=found.id, elements=found.elements, properties=kept or UNSET)
        message, operation = f"Alter namespace {wanted.key}", Put(wanted.key, content)
    else:
        get(client, head.hash, wanted.type, wanted.key)
        message, operation = f"Drop {_WORDS[wanted.type]} {wanted.key}", Delete(wanted.key)
    client.commit(head.name, head.hash, NewCommit(message=message), [operation])


def revert(client: NessieClient, branch: str, wanted: RevertContent) -> tuple[str, CommitHash | None]:
    """The branch, and where it ends then; None when a dry run would write a commit."""
    name = _get_branch(client, branch).name
    at = find(client, wanted.state, name).hash
    result = client.revert_contents(
        name, None, wanted.keys, at, allow_deletes=wanted.allow_deletes, dry_run=wanted.dry_run
    )
    return name, result.resultant_target_hash


def _get_branch(client: NessieClient, name: str) -> Branch:
    if "@" in name:
        raise BadRequest(f"The session reads {name}, a commit, which nobody can write to; USE BRANCH first.")
    found = client.get_reference(name)
    if not isinstance(found, Branch):
        raise BadRequest(f"'{name}' is a tag, which nobody can write to; name a branch by ON, or USE BRANCH first.")
    return found
