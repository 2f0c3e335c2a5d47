"""Which folders a sweep lists, and below which nothing may be deleted.

Listed are tables' own locations, each file once, however they overlap.  Not listed are the root of a bucket or of
a file system, and what lies outside the allowed locations; a folder where engines were told to write beside the
table's location is listed only when an allowed location holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nessie_ops.gc.expand import Expansion
from nessie_ops.gc.places import NotAPlace, is_within, list_folders, outermost
from nessie_ops.gc.storage import Stores


class Bases(NamedTuple):
    """What to list: bases as their storage takes them, with the contents that write there; and what was left out."""

    listed: list[str]
    owners: dict[str, set[str]]
    """By base of a content, which is within one of `listed`: the contents."""
    refused: dict[str, str]
    """Locations that are not listed, and why."""


class Bounds:
    """Where a sweep may delete; `allowed` are locations, none of them: everywhere but in the root of a store."""

    def __init__(self, stores: Stores, allowed: Iterable[str] = ()) -> None:
        self._stores = stores
        self._allowed = [stores.physical(location) for location in allowed]

    def refuse(self, base: str, *, is_own: bool) -> str:
        """Why the folder `base` must not be listed; empty when it may be."""
        place = self._stores.physical(base)
        if any(is_within(place, allowed) for allowed in self._allowed):
            return ""
        if self._allowed:
            return "lies outside the allowed locations"
        if _is_root(place):
            return "is the root of a store; allow it by --allowed-location"
        return "" if is_own else "is not the table's own location; allow it by --allowed-location"


def choose_bases(stores: Stores, bounds: Bounds, expansion: Expansion, known: Iterable[tuple[str, str]] = ()) -> Bases:
    """The bases of all contents of an expansion, and `known` (content id, location) pairs from elsewhere."""
    owners: dict[str, set[str]] = {}
    refused: dict[str, str] = {}
    candidates = [(content, name, True) for content, names in expansion.locations.items() for name in names]
    candidates += [(content, name, False) for content, names in expansion.paths.items() for name in names]
    candidates += [(content, name, True) for content, name in known]
    for content, location, is_own in candidates:
        try:
            base = stores.of(location).base(location)
            why = bounds.refuse(base, is_own=is_own)
        except NotAPlace as error:
            base, why = location, str(error)
        if why:
            refused.setdefault(location, why)
        else:
            owners.setdefault(base, set()).add(content)
    return Bases(outermost(owners), owners, refused)


class Blocked:
    """Folders of broken contents: everything below them, and everything in them, stays."""

    def __init__(self, stores: Stores, expansion: Expansion, bases: Bases) -> None:
        self._folders: dict[str, str] = {}
        for content in expansion.broken:
            names = expansion.locations.get(content, set()) | expansion.paths.get(content, set())
            names |= {base for base, owners in bases.owners.items() if content in owners}
            names.update(_folders_of(expansion.broken[content].location))
            for name in names | expansion.outside.get(content, set()):
                try:
                    self._folders[stores.physical(name)] = content
                except NotAPlace:
                    continue

    def __bool__(self) -> bool:
        return bool(self._folders)

    def holds(self, place: str) -> bool:
        """Whether a file lies below a folder of a broken content."""
        return any(folder in self._folders for folder in list_folders(place))


def _is_root(place: str) -> bool:
    return "/" not in place.partition("://")[2]


def _folders_of(metadata_location: str) -> list[str]:
    """Where the files of a table probably lie of which only the name of a metadata file is known."""
    folder = metadata_location.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return [folder, above] if name == "metadata" else [folder]
