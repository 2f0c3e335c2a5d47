"""Writes an archive of a store while it is used.

What is archived is the state at the start: references, settings and the last move of the reference log are read under
one lock; objects never change.  An export that was interrupted goes on, also in another process: the order of the
commits follows from the heads alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import TRANSACTIONS
from nessie_ops.store import Kind, ReferenceRecord, Store, Transaction, bulk, scan
from nessie_ops.store.tables import FORMAT
from nessie_ops.versioning import archive, reach
from nessie_ops.versioning.archive import Header, Manifest, Objects, SavedReference, Writer
from nessie_ops.versioning.codec import Commit, to_micros
from nessie_ops.versioning.references import refuse_unfinished_import

MEMBER_BYTES = 8 << 20  # of data in a member: bounds what an export or import has in memory
Progress = Callable[[str, int], None]


def export(
    store: Store, path: Path, *, grace: timedelta, now: datetime, new_id: Callable[[], str], progress: Progress
) -> Manifest:
    """Archive what references need, and have needed within `grace`.

    BadRequest (the file), StoreFormatError (an unfinished import), ReferenceNotFound (a commit was purged meanwhile).
    """
    with Writer(path) as writer:
        if writer.header is None:
            writer.add_header(_pin(store, to_micros(now - grace), new_id()))
        header = writer.header
        assert header is not None
        if header.format != FORMAT:
            raise BadRequest(f"archive: {path}.partial was begun with another format of the store; remove it.")
        try:
            _export_objects(store, writer, header, progress)
        except ReferenceNotFound as error:
            raise ReferenceNotFound(
                f"A commit was purged while the archive was written; remove {path}.partial and begin again. {error}"
            ) from error
        _export_moves(store, writer, header.last_seq, progress)
        return writer.finish()


def _pin(store: Store, since: int, id: str) -> Header:
    with store.write() as tx:
        last_seq = scan.get_last_seq(tx, lock=True) or 0
        refuse_unfinished_import(tx)
        records, settings = _list_references(tx), bulk.list_settings(tx)
        roots = {record.head for record in records}
        roots |= {head for moves in scan.scan_moves(tx, 0, since) for move in moves for head in move[4:6]}
        existing = scan.list_existing(tx, [root for root in roots if root])
    saved = [SavedReference(r.name, r.type, r.head.hex() if r.head else None, *r[3:]) for r in records]
    return Header(archive.VERSION, FORMAT, id, settings, saved, sorted(root.hex() for root in existing), last_seq)


def _list_references(tx: Transaction) -> list[ReferenceRecord]:
    """All but the branches of transactions, which are not archived."""
    return [record for record in scan.scan_references(tx) if not record.name.startswith(TRANSACTIONS)]


def _export_objects(store: Store, writer: Writer, header: Header, progress: Progress) -> None:
    roots = [bytes.fromhex(root) for root in header.roots]
    done = writer.counts.commits
    with store.read() as tx:
        for commits in reach.batches(islice(reach.walk(tx, roots), done, None), reach.AT_ONCE):
            nodes: list[bytes] = []
            contents: list[bytes] = []
            size = 0
            for kind, raw in _read_added(tx, commits):
                (nodes if kind is Kind.NODE else contents).append(raw)
                size += len(raw)
                if size > MEMBER_BYTES:
                    writer.add(archive.OBJECTS, Objects([], nodes, contents))
                    nodes, contents, size = [], [], 0
            writer.add(archive.OBJECTS, Objects([_row(commit) for commit in commits], nodes, contents))
            progress("commits archived", writer.counts.commits)


def _read_added(tx: Transaction, commits: Sequence[Commit]) -> Iterator[tuple[Kind, bytes]]:
    """The data of what the commits added, each object once."""
    seen: set[bytes] = set()
    for kind, ids in reach.list_added(tx, commits):
        for some in reach.batches((id for id in dict.fromkeys(ids) if id not in seen), scan.BATCH):
            found = bulk.read_data(tx, kind, some)
            if len(found) < len(some):
                gone = next(id for id in some if id not in found)
                raise ReferenceNotFound(f"{kind.name.capitalize()} '{gone.hex()}' not found")
            seen.update(some)
            yield from ((kind, raw) for raw in found.values())


def _row(commit: Commit) -> tuple[bytes | None, bytes | None, bytes | None, int, int, int, bytes, bytes, bytes]:
    return (
        commit.parent,
        commit.merge_parent,
        commit.jump,
        commit.depth,
        commit.generation,
        commit.time,
        commit.root,
        commit.meta,
        commit.operations,
    )


def _export_moves(store: Store, writer: Writer, last_seq: int, progress: Progress) -> None:
    """The reference log up to `last_seq`, behind what is archived of it."""
    with store.read() as tx:
        for moves in scan.scan_moves(tx, writer.counts.moves):
            rows: list[archive.Row] = [(*move,) for move in moves if move.seq <= last_seq]
            if rows:
                writer.add(archive.MOVES, rows)
            progress("moves archived", writer.counts.moves)
            if moves[-1].seq >= last_seq:
                return
