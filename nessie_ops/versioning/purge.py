"""Deletes commits, nodes and contents that no reference needs, while writers go on.

Mark: the commits that can be reached from heads, from moves of references within the grace period, and from whatever
was used since the start are remembered exactly; the nodes and contents that they added, in a Bloom filter.  The
filter is asked only whether to keep an object, never whether to walk on: there a false answer would lose data.

Sweep: commits first, descendants before ancestors, so that at every moment all that an existing commit needs exists;
then what no commit needs.  Each batch is a transaction that holds back the moves of references and first marks
what has moved since.  So it may be killed at any time, and why no writer loses anything is docs/decisions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from pybloom_live import BloomFilter

from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.store import Kind, Store, Transaction, WriteTransaction, figures, scan, sweep
from nessie_ops.versioning import reach
from nessie_ops.versioning.codec import to_micros
from nessie_ops.versioning.references import refuse_unfinished_import

GRACE = timedelta(days=7)
BATCH = 500  # objects of a transaction: holds writers back for some milliseconds
PAUSE_S = 0.002  # between transactions, so that writers get in
ERROR_RATE = 0.01  # of the garbage, what stays until the next run, which has another seed
SPARE = 10_000  # room in the filter for what is written meanwhile, beside a tenth
TRIES = 8  # of a transaction that the database rolled back for another's sake
FILTERS = 3  # filters tried, each twice as large
T = TypeVar("T")
Progress = Callable[[str, int], None]


class Purged(msgspec.Struct, frozen=True, rename="camel"):
    """What was deleted, or with `dry_run` would be; `live_commits` is how many stay."""

    dry_run: bool
    live_commits: int
    commits: int
    nodes: int
    contents: int
    data_bytes: int


class Overfull(Exception):
    """More was marked than the filter has room for, so it would keep too much."""


class Marks:
    """What to keep: commits exactly, nodes and contents by a Bloom filter of `capacity` entries."""

    def __init__(self, capacity: int, seed: bytes, progress: Progress) -> None:
        self.commits: set[bytes] = set()
        self._filter = BloomFilter(capacity, ERROR_RATE)
        self._seed = seed.hex()
        self._progress = progress

    def add(self, tx: Transaction, roots: Iterable[bytes]) -> None:
        """Mark commits, their ancestors and all that they hold; Overfull."""
        for commits in reach.batches(reach.walk(tx, roots, self.commits), reach.AT_ONCE):
            for _, ids in reach.list_added(tx, commits):
                for id in ids:
                    self._add(id)
            self.commits.update(commit.id for commit in commits)
            self._progress("commits marked", len(self.commits))

    def _add(self, id: bytes) -> None:
        try:
            self._filter.add(self._key(id))
        except IndexError:
            raise Overfull from None

    def keeps(self, kind: Kind, id: bytes) -> bool:
        return id in self.commits if kind is Kind.COMMIT else self._key(id) in self._filter

    def _key(self, id: bytes) -> str:
        return self._seed + id.hex()


def purge(
    store: Store,
    *,
    now: datetime,
    grace: timedelta,
    dry_run: bool,
    progress: Progress,
    new_seed: Callable[[], bytes] = lambda: os.urandom(16),
    sleep: Callable[[float], None] = time.sleep,
    capacity: int | None = None,
) -> Purged:
    """Delete what neither a head needs nor a move of a reference not older than `grace`; see the module.

    `capacity` of the filter: by default what the store holds.  BadRequest (grace; an unfinished import).
    """
    if grace < timedelta(0):
        raise BadRequest("grace: must not be negative.")
    with store.read() as tx:
        refuse_unfinished_import(tx)
        rows = figures.count_rows(tx)
    capacity = capacity or int(1.1 * (rows["node"] + rows["content"])) + SPARE
    start = to_micros(now)
    for attempt in range(FILTERS):
        marks = Marks(capacity << attempt, new_seed(), progress)
        run = _Run(store, marks, start, sleep, dry_run, progress)
        try:
            run.mark(start - int(grace.total_seconds() * 1_000_000))
            run.sweep_commits()
            run.sweep_objects(Kind.NODE)
            run.sweep_objects(Kind.CONTENT)
            run.sweep_keys()
        except Overfull:
            continue
        commits, nodes, contents = (run.deleted[kind] for kind in (Kind.COMMIT, Kind.NODE, Kind.CONTENT))
        return Purged(dry_run, len(marks.commits), commits, nodes, contents, run.data_bytes)
    raise StoreUnavailable(f"The filter of what to keep was too small {FILTERS} times: try when less is written.")


class _Run:
    """One try of a purge, with one filter."""

    def __init__(
        self,
        store: Store,
        marks: Marks,
        start: int,
        sleep: Callable[[float], None],
        dry_run: bool,
        progress: Progress,
    ) -> None:
        self._store, self._marks, self._start = store, marks, start
        self._sleep, self._dry_run, self._progress = sleep, dry_run, progress
        self._seq = 0  # moves up to here are marked
        self.deleted = dict.fromkeys(Kind, 0)
        self.data_bytes = 0

    def mark(self, cutoff: int) -> None:
        """Mark from heads, and from the moves since `cutoff`: both where a reference was and where it went."""
        with self._store.read() as tx:
            self._seq = scan.get_last_seq(tx) or 0  # before the heads are read: later moves are marked by `_catch_up`
            heads = {record.head for record in scan.scan_references(tx)}
            moved = {head for moves in scan.scan_moves(tx, 0, cutoff) for move in moves for head in move[4:6]}
            self._mark_existing(tx, heads | moved)

    def _mark_existing(self, tx: Transaction, heads: Iterable[bytes | None]) -> None:
        wanted = {head for head in heads if head is not None} - self._marks.commits
        self._marks.add(tx, scan.list_existing(tx, wanted))  # an earlier run may have purged what the log names

    def sweep_commits(self) -> None:
        """Delete commits that are not marked, descendants first."""
        for ids in reach.batches(self._find_commits(), BATCH):
            self._sweep(Kind.COMMIT, ids)

    def _find_commits(self) -> list[bytes]:
        unmarked, used = [], set()
        with self._store.read() as tx:
            for batch in scan.scan_commit_ages(tx):
                for id, used_at, generation in batch:
                    if id in self._marks.commits:
                        continue
                    if used_at >= self._start:
                        used.add(id)
                    else:
                        unmarked.append((-generation, id))
            self._marks.add(tx, used)  # it stays, so all that it needs must
        return [id for _, id in sorted(unmarked)]

    def sweep_objects(self, kind: Kind) -> None:
        """Delete nodes or contents that are not marked, by id."""
        after, done = b"", 0
        while True:
            with self._store.read() as tx:
                ages = scan.read_ages(tx, kind, after)
            if not ages:
                return
            after, done = ages[-1][0], done + len(ages)
            unmarked = [id for id, used_at in ages if used_at < self._start and not self._marks.keeps(kind, id)]
            for ids in reach.batches(unmarked, BATCH):
                self._sweep(kind, ids)
            self._progress(f"{kind.name.lower()}s looked at", done)

    def sweep_keys(self) -> None:
        """Delete the keys of requests that have expired."""
        while not self._dry_run and self._transact(lambda tx: tx.delete_expired_answers()):
            self._sleep(PAUSE_S)

    def _sweep(self, kind: Kind, ids: Sequence[bytes]) -> None:
        if self._dry_run:
            with self._store.read() as tx:
                free = self._find_free(tx, kind, ids, lock=False)
        else:
            free = self._transact(lambda tx: self._delete(tx, kind, ids))
            self._sleep(PAUSE_S)
        self.deleted[kind] += len(free)
        self.data_bytes += sum(free.values())
        if kind is Kind.COMMIT:
            self._progress("commits deleted", self.deleted[kind])

    def _delete(self, tx: WriteTransaction, kind: Kind, ids: Sequence[bytes]) -> dict[bytes, int]:
        free = self._find_free(tx, kind, ids, lock=True)
        if free:
            sweep.delete_objects(tx, kind, list(free))
        return free

    def _find_free(self, tx: Transaction, kind: Kind, ids: Sequence[bytes], *, lock: bool) -> dict[bytes, int]:
        """Those of `ids` that may go, with their bytes.  First marks what moved since, and what is needed just now."""
        last = scan.get_last_seq(tx, lock=lock) or 0
        refuse_unfinished_import(tx)
        heads = {head for moves in scan.scan_moves(tx, self._seq) for move in moves for head in move[4:6]}
        self._mark_existing(tx, heads)
        self._seq = max(self._seq, last)
        unmarked = [id for id in ids if not self._marks.keeps(kind, id)]
        if not unmarked:
            return {}
        found = sweep.find_candidates(tx, kind, unmarked, self._start, lock=lock)
        if kind is Kind.COMMIT:
            self._marks.add(tx, found.needed)
        return {id: size for id, size in found.free.items() if not self._marks.keeps(kind, id)}

    def _transact(self, function: Callable[[WriteTransaction], T]) -> T:
        for attempt in range(1, TRIES):
            try:
                with self._store.write() as tx:
                    return function(tx)
            except StoreUnavailable:
                self._sleep(attempt * 10 * PAUSE_S)
        with self._store.write() as tx:
            return function(tx)
