"""Looks at the references again before anything is deleted: what became reachable since the mark is live.

A commit that lands between mark and deletion names files that are younger than the limit, or files that were live
already.  A branch that is created on an old commit, a table that is registered anew, or a reference that is moved
back names old ones, and those are the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nessie_ops.gc.expand import Broken, Expander, Wanted, find_lost
from nessie_ops.gc.live import Exact
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import Source
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
    ) -> None:
        self._source, self._stores, self._bound_of = source, stores, bound_of
        self._marker = Marker(source)
        for reference in pinned:
            self._marker.assume(reference)
        self._heads: dict[str, CommitHash] = {reference.name: reference.hash for reference in pinned}
        self._live = Exact()
        self._expander = Expander(stores, self._live, only_named=only_named)
        self._heads_need_all = heads_need_all
        self._lost: list[Broken] = []

    def refresh(self) -> list[Broken]:
        """Mark what moved since the last time; what of it cannot be read, after which nothing may be deleted."""
        wanted: list[Wanted] = []
        moved: list[CommitHash] = []
        for reference in list(self._source.references()):
            if self._heads.get(reference.name) == reference.hash:
                continue
            marked = self._marker.mark(Pinned(reference.name, reference.hash, self._bound_of(reference.name)))
            wanted += [Wanted(*live.put.version) for live in marked.live]
            self._heads[reference.name] = reference.hash
            moved.append(reference.hash)
        if self._heads_need_all:
            wanted += self._shown_at(moved)
        if wanted:
            self._expander.expand(wanted)
        found = self._expander.result
        if found.missing and moved:
            self._lost += find_lost(self._stores, self._shown_at(moved))
        return [*found.broken.values(), *self._lost]

    def _shown_at(self, commits: Iterable[CommitHash]) -> Iterator[Wanted]:
        for commit in commits:
            yield from (Wanted(*put.version) for put in self._source.visible(commit))

    def is_live(self, location: str) -> bool:
        """Whether a file has become live since the mark."""
        try:
            return self._stores.physical(location) in self._live
        except NotAPlace:
            return True
