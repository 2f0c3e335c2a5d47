"""The references as they are now, beside those of a mark: what they show, and what became live since.

With snapshots expired, a version that a reference shows at its head needs all that its metadata lists; any other live
version needs the snapshot alone that its commit names.  A transaction's branch is as fixed as a tag: what is rewritten
there would count as written by the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nessie_ops.gc.expand import Wanted
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import Source, Version
from nessie_ops.model import TRANSACTIONS, Branch, CommitHash


class Heads(NamedTuple):
    """References with their commits; `branches` may be rewritten; `shown` are versions at these commits, by whether
    what shows them may not be; `since` the mark.
    """

    pinned: list[Pinned]
    branches: dict[str, CommitHash]
    shown: dict[Version, bool]
    since: set[Version]


def look(source: Source, pinned: Sequence[Pinned], bound_of: Callable[[str], Bound]) -> Heads:
    """The references now; those that moved from where they were `pinned` are marked up to there."""
    marker = Marker(source)
    for before in pinned:
        marker.assume(before)
    known = {(before.name, before.hash) for before in pinned}
    found = Heads([], {}, {}, set())
    tagged: dict[CommitHash, bool] = {}
    for reference in list(source.references()):
        now = Pinned(reference.name, reference.hash, bound_of(reference.name))
        found.pinned.append(now)
        is_fixed = not isinstance(reference, Branch) or now.name.startswith(TRANSACTIONS)
        if not is_fixed:
            found.branches[now.name] = now.hash
        tagged[now.hash] = tagged.get(now.hash, False) or is_fixed
        if (now.name, now.hash) not in known:
            found.since.update(live.put.version for live in marker.mark(now).live)
    for hash, is_tagged in tagged.items():
        for put in source.visible(hash):
            found.shown[put.version] = found.shown.get(put.version, False) or is_tagged
    return found


def list_wanted(marked: Iterable[Version], heads: Heads, planned: Mapping[str, frozenset[int]]) -> Iterator[Wanted]:
    """What to expand; `planned` are the snapshots that would stay in metadata files that would be rewritten."""
    for version, is_tagged in heads.shown.items():
        yield Wanted(*version, others=None if is_tagged else planned.get(version.metadata_location))
    for version in {*marked, *heads.since} - heads.shown.keys():
        yield Wanted(*version, others=frozenset(), has_log=False)
