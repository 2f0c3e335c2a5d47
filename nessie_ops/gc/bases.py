"""Which folders a sweep lists, and below which nothing may be deleted.

Listed are tables' own locations, each file once, however they overlap.  Not listed are the root of a bucket or of
a file system, and what lies outside the allowed locations; a folder where engines were told to write beside the
table's location is listed only when an allowed location holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nessie_ops.gc.expand import Broken, Expansion
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


class Known(NamedTuple):
    """A folder of a content that its live metadata need not name; `is_own` when it was once the table's own."""

    content_id: str
    location: str
    is_own: bool = True


def choose_bases(stores: Stores, bounds: Bounds, expansion: Expansion, known: Iterable[Known] = ()) -> Bases:
    """The bases of all contents of an expansion, and those `known` from elsewhere."""
    owners: dict[str, set[str]] = {}
    refused: dict[str, str] = {}
    candidates = [(content, name, True) for content, names in expansion.locations.items() for name in names]
    candidates += [(content, name, False) for content, names in expansion.paths.items() for name in names]
    candidates += known
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
    """Folders of broken contents: everything below them, and everything in them, stays.

    These are their locations, as far as any metadata or `known` tells them, and those in which known files of theirs
    lie.  Where nothing tells them, and the broken object is not where metadata usually is, it is the whole store.
    """

    def __init__(
        self,
        stores: Stores,
        expansion: Expansion,
        known: Iterable[Known] = (),
        broken: Iterable[Broken] = (),
    ) -> None:
        self._folders: set[str] = set()
        told: dict[str, set[str]] = {}
        for row in known:
            told.setdefault(row.content_id, set()).add(row.location)
        for each in [*expansion.broken.values(), *broken]:
            content = each.content_id
            names = expansion.locations.get(content, set()) | told.get(content, set())
            guessed = _folders_of(each.location)
            if not names and len(guessed) == 1:
                guessed.append(_root_of(each.location))
            names = names.union(guessed, expansion.paths.get(content, ()))
            names.update(*(_with_table(folder) for folder in expansion.outside.get(content, ())))
            for name in names:
                try:
                    self._folders.add(stores.physical(name))
                except NotAPlace:
                    continue

    def __bool__(self) -> bool:
        return bool(self._folders)

    def holds(self, place: str) -> bool:
        """Whether a file lies below a folder of a broken content."""
        return bool(self._folders) and any(folder in self._folders for folder in list_folders(place))


def _is_root(place: str) -> bool:
    return "/" not in place.partition("://")[2]


def _folders_of(metadata_location: str) -> list[str]:
    """Where the files of a table probably lie of which only the name of a metadata file is known."""
    return _with_table(metadata_location.rpartition("/")[0])


def _with_table(folder: str) -> list[str]:
    """A folder, and the one that is a table's when this has its metadata."""
    above, _, name = folder.rpartition("/")
    return [folder, above] if name == "metadata" else [folder]


def _root_of(location: str) -> str:
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if rest else "/"
