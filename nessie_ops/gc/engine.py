"""What another engine than threads of this process does for a sweep: it expands live versions and lists folders.

The rules are those of `expand`, `places` and `sweep`; an engine only decides where they run.  Before the candidates
of a live set are deleted they are in its database, whatever engine found them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from nessie_ops.gc.bases import Bases
from nessie_ops.gc.expand import Broken, Expansion, Wanted
from nessie_ops.store.livesets import LiveSets

if TYPE_CHECKING:
    from nessie_ops.gc.sweep import Judge, Verdict


class Engine(Protocol):
    """Does one sweep."""

    def expand(self, wanted: Iterable[Wanted], *, only_named: bool, progress: Callable[[str, int], None]) -> Expansion:
        """Find the live files, and keep them; what else was found."""

    def find_lost(self, heads: Iterable[Wanted], lost: Collection[str]) -> list[Broken]:
        """As `expand.find_lost`."""

    def find(
        self,
        sets: LiveSets,
        number: int,
        judge: Judge,
        bases: Bases,
        todo: Sequence[str],
        progress: Callable[[str, int], None],
    ) -> list[Verdict]:
        """After `expand`: list the bases `todo`, and record the candidates below them.

        `judge` knows all but the live files.
        """
