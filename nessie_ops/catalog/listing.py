"""Lists what lies directly in a namespace, in pages, without reading what lies deeper.

The children of a namespace are a key range in which each child namespace is followed by all it holds;
a scan that ends inside one of those goes on behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from nessie_ops.model import CommitHash, ContentKey, ContentType, Entry
from nessie_ops.versioning.versionstore import VersionStore

MAX_NAMES = 1000  # names in a page
_BATCH = 500  # rows of one scan: amortises a query, and bounds what a large child namespace costs
_BEHIND = "\x01"  # sorts after everything below a name and before every other name


class Names(NamedTuple):
    """A page of names; `more` says that another follows the last of them."""

    names: list[str]
    more: bool


def list_children(
    store: VersionStore, at: CommitHash, parent: ContentKey | None, kind: ContentType, after: str | None, limit: int
) -> Names:
    """Up to `limit` names of contents of `kind` directly below `parent` (None: the root), from behind `after`."""
    depth = len(parent.elements) + 1 if parent else 1
    above = parent.elements if parent else ()
    names: list[str] = []
    start = ContentKey((*above, f"{after}{_BEHIND}" if after else ""))
    while True:
        batch = store.list_entries(at, prefix=parent, first=start, limit=_BATCH)
        names += [entry.name.name for entry in batch if _is_child(entry, depth, kind)]
        if len(names) > limit or len(batch) < _BATCH:
            return Names(names[:limit], len(names) > limit)
        start = ContentKey((*above, batch[-1].name.elements[depth - 1] + _BEHIND))


def _is_child(entry: Entry, depth: int, kind: ContentType) -> bool:
    return len(entry.name.elements) == depth and entry.type == kind
