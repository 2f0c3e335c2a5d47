"""Namespaces: contents with properties that hold tables, views and other namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from nessie_ops.catalog.lake import ANONYMOUS, Lake, again_when_overtaken, ancestors, require_namespace
from nessie_ops.catalog.listing import MAX_NAMES, Names, list_children
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, ContentKey, ContentType, Delete, Namespace, NewCommit, Put

LOCATION = "location"


class PropertyChanges(NamedTuple):
    """What an update of properties did; all sorted."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


class Namespaces:
    """The namespaces of a catalog, at any reference."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def list_names(
        self, at: CommitHash, parent: ContentKey | None = None, *, after: str | None = None, limit: int = MAX_NAMES
    ) -> Names:
        """Names of the namespaces directly below `parent` (None: the root); NamespaceNotFound."""
        self.require(at, parent)
        return list_children(self._lake.store, at, parent, ContentType.NAMESPACE, after, limit)

    def require(self, at: CommitHash, key: ContentKey | None) -> None:
        """NamespaceNotFound unless `key` is a namespace at commit `at`; None, the root, always is."""
        if key is not None:
            require_namespace(self._lake.get(at, key), key)

    def get(self, ref: str, key: ContentKey) -> dict[str, str]:
        """Properties of a namespace, with the location that its tables are created in; NamespaceNotFound."""
        names = [*ancestors(key), key]
        found = self._lake.store.get_contents(self._lake.resolve(ref), names)
        require_namespace(found.get(key), key)
        chain = {name: require_namespace(found.get(name), name) for name in names}
        return self._shown(chain, key)

    def create(
        self, ref: str, key: ContentKey, properties: Mapping[str, str], meta: NewCommit = ANONYMOUS
    ) -> dict[str, str]:
        """A new namespace; NameTaken, NamespaceNotFound (its parent), BadRequest (its location)."""
        branch = self._lake.get_branch(ref)
        namespaces = self._lake.get_free_place(branch.hash, key, ContentType.NAMESPACE)
        checked = self._checked(properties)
        content = Namespace(elements=key.elements, properties=checked or msgspec.UNSET)
        created = self._shown({**namespaces, key: content}, key)
        self._lake.commit(branch, f"create namespace {key}", [Put(key, content)], meta, created)
        return created

    @again_when_overtaken
    def drop(self, ref: str, key: ContentKey, meta: NewCommit = ANONYMOUS) -> None:
        """Delete an empty namespace; NamespaceNotFound, NamespaceNotEmpty."""
        branch = self._lake.get_branch(ref)
        self.require(branch.hash, key)
        self._lake.commit(branch, f"drop namespace {key}", [Delete(key)], meta)

    @again_when_overtaken
    def update(
        self,
        ref: str,
        key: ContentKey,
        updates: Mapping[str, str],
        removals: Iterable[str] = (),
        meta: NewCommit = ANONYMOUS,
    ) -> PropertyChanges:
        """Set and remove properties; NamespaceNotFound, BadRequest when a name is in both lists."""
        removals = set(removals)
        if both := sorted(removals & set(updates)):
            raise BadRequest(f"removals: {', '.join(both)[:200]} cannot be both updated and removed.")
        branch = self._lake.get_branch(ref)
        namespace = require_namespace(self._lake.get(branch.hash, key), key)
        before = properties_of(namespace)
        removed, missing = removals & set(before), removals - set(before)
        after = {name: value for name, value in before.items() if name not in removed} | self._checked(updates)
        changes = PropertyChanges(sorted(updates), sorted(removed), sorted(missing))
        if after != before:
            content = msgspec.structs.replace(namespace, properties=after or msgspec.UNSET)
            self._lake.commit(branch, f"update namespace {key}", [Put(key, content)], meta, changes)
        return changes

    def _shown(self, chain: dict[ContentKey, Namespace], key: ContentKey) -> dict[str, str]:
        """What clients see of the last of `chain`, the namespaces from the outermost to `key`."""
        own = properties_of(chain[key])
        try:
            return {LOCATION: self._lake.default_location(chain, key)} | own
        except BadRequest:  # a Nessie client put a location that is not allowed: shown, so that people can mend it
            return own

    def _checked(self, properties: Mapping[str, str]) -> dict[str, str]:
        checked = dict(properties)
        if LOCATION in checked:
            checked[LOCATION] = self._lake.files.warehouse.check(checked[LOCATION], f"properties.{LOCATION}")
        return checked


def properties_of(namespace: Namespace) -> dict[str, str]:
    return dict(namespace.properties or {})
