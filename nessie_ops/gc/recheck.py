"""Looks at the references again before anything is deleted: what became reachable since the mark is live.

A commit that lands between mark and deletion names files that are younger than the limit, or files that were live
already.  A branch that is created on an old commit, a table that is registered anew, or a reference that is moved
back names old ones, and those are the candidates.  Where it cannot be known which ones, because such a table cannot
be read, all stay that may be its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nessie_ops.gc.bases import Blocked, Known
from nessie_ops.gc.expand import Broken, Expander, Wanted, find_lost
from nessie_ops.gc.live import Exact
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import Source, Version
from nessie_ops.gc.storage import Stores
from nessie_ops.model import CommitHash


class Recheck:
    """Keeps up with the references from those that a mark pinned.

    With `heads_need_all` the mark's versions needed their own snapshots alone, so what moved heads show is read anew.
    """

    def __init__(
        self,
        source: Source,
        stores: Stores,
        pinned: Sequence[Pinned],
        bound_of: Callable[[str], Bound],
        *,
        only_named: bool = False,
        heads_need_all: bool = False,
        known: Iterable[Known] = (),
    ) -> None:
        self._source, self._stores, self._bound_of = source, stores, bound_of
        self._marker = Marker(source)
        for reference in pinned:
            self._marker.assume(reference)
        self._heads: dict[str, CommitHash] = {reference.name: reference.hash for reference in pinned}
        self._marked = {(reference.hash, reference.bound) for reference in pinned}
        self._moved: set[CommitHash] = set()
        self._live = Exact()
        self._expander = Expander(stores, self._live, only_named=only_named)
        self._heads_need_all = heads_need_all
        self._lost: list[Broken] = []
        self._done: set[Version] = set()
        self._known = list(known)
        self._blocked = Blocked(stores, self._expander.result)

    def refresh(self) -> list[Broken]:
        """Mark what moved since the last time; what of it cannot be read."""
        wanted: list[Version] = []
        moved: list[CommitHash] = []
        for reference in list(self._source.references()):
            if self._heads.get(reference.name) == reference.hash:
                continue
            self._heads[reference.name] = reference.hash
            bound = self._bound_of(reference.name)
            if (reference.hash, bound) not in self._marked:  # else others were there: many transactions are
                self._marked.add((reference.hash, bound))
                marked = self._marker.mark(Pinned(reference.name, reference.hash, bound))
                wanted += [live.put.version for live in marked.live]
            if reference.hash not in self._moved:  # a head needs more than a mark that was of its commit gave it
                self._moved.add(reference.hash)
                moved.append(reference.hash)
        if self._heads_need_all:
            wanted += self._shown_at(moved)
        new = [version for version in dict.fromkeys(wanted) if version not in self._done]
        found = self._expander.expand(Wanted(*version) for version in new) if new else self._expander.result
        self._done.update(new)
        if found.missing and moved:
            shown = (Wanted(*version) for version in self._shown_at(moved))
            self._lost += find_lost(self._stores, shown, found.missing)
        if found.broken or self._lost:
            self._blocked = Blocked(self._stores, found, self._known, self._lost)
        return list(dict.fromkeys([*found.broken.values(), *self._lost]))

    def _shown_at(self, commits: Iterable[CommitHash]) -> Iterator[Version]:
        for commit in commits:
            yield from (put.version for put in self._source.visible(commit))

    def judge(self, location: str) -> str:
        """`live` when a file has become so since the mark, `broken` when that cannot be known, else `dead`."""
        try:
            place = self._stores.physical(location)
        except NotAPlace:
            return "live"
        return "live" if place in self._live else "broken" if self._blocked.holds(place) else "dead"
