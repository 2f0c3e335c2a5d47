"""Fills an empty store from an archive.

Objects come first, in one transaction for each member of the archive, which also notes how far the import has come: an
interrupted one goes on.  Then all objects are checked, and only then do references appear, all at once.  Until then the
setting `import` keeps everybody else out of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec

from nessie_ops.errors import BadRequest, StoreFormatError
from nessie_ops.model import decode_content
from nessie_ops.store import ReferenceRecord, Store, WriteTransaction, bulk
from nessie_ops.versioning import archive, tree
from nessie_ops.versioning.archive import Header, Manifest, Objects, Reader
from nessie_ops.versioning.check_objects import check_objects
from nessie_ops.versioning.codec import Commit, commit_id
from nessie_ops.versioning.objects import StoredNodes, save_content
from nessie_ops.versioning.references import IMPORT

MAX_NAMED = 5  # faults that the error names
Progress = Callable[[str, int], None]


class _State(msgspec.Struct):
    """The setting `import`: of which archive, and how many of its members are in the store."""

    id: str
    done: int


def import_archive(store: Store, path: Path, *, progress: Progress) -> Manifest:
    """Import into an empty store, or one that an interrupted import of the same archive has left.

    BadRequest: the file is damaged or no archive, the store is not empty, or holds a part of another archive.
    """
    with Reader(path) as reader:
        _check_header(path, reader.header)
        done = _begin(store, reader.header.id)
        members = [*reader.names(archive.OBJECTS), *reader.names(archive.MOVES)]
        for number, name in islice(enumerate(members, 1), done, None):
            with store.write() as tx:
                if name.startswith(archive.OBJECTS):
                    _save_objects(tx, path, name, reader.read_objects(name))
                else:
                    bulk.insert_moves(tx, reader.read_moves(name))
                tx.put_setting(IMPORT, _encode(_State(reader.header.id, number)))
            progress(f"of {len(members)} parts imported", number)
        _check(store, path, progress)
        with store.write() as tx:
            _publish(tx, reader.header)
        return reader.manifest


def _check_header(path: Path, header: Header) -> None:
    if header.archive != archive.VERSION:
        raise BadRequest(
            f"archive: {path} has version {header.archive}, this version of nessie_ops reads {archive.VERSION}."
        )


def _begin(store: Store, id: str) -> int:
    """Keep others out; how many members an earlier import of the same archive has brought."""
    with store.write() as tx:
        text = tx.get_setting(IMPORT)
        if text is None:
            if not bulk.is_empty(tx):
                raise BadRequest("store: import needs an empty store, this one has commits or references.")
            bulk.clear_references(tx)
            tx.put_setting(IMPORT, _encode(_State(id, 0)))
            return 0
    state = msgspec.json.decode(text, type=_State)
    if state.id != id:
        raise BadRequest("store: holds a part of another archive; finish that import, or begin with an empty store.")
    return state.done


def _encode(state: _State) -> str:
    return msgspec.json.encode(state).decode()


def _save_objects(tx: WriteTransaction, path: Path, name: str, objects: Objects) -> None:
    """Save objects under the ids of their bytes: a wrong byte is another object, which the check will miss."""
    nodes = StoredNodes(tx)
    try:
        for raw in objects.nodes:
            if nodes.save(tree.Node.decode(raw)) != tree.node_id(raw):
                raise ValueError("a node is not in the form that the store writes")
        for raw in objects.contents:
            save_content(tx, decode_content(raw))
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError, BadRequest) as error:
        raise BadRequest(f"archive: {path}: {name}: {error}.") from error
    for row in objects.commits:
        parent, merge_parent, _, _, _, time, root, meta, operations = row
        commit = Commit(commit_id(parent, merge_parent, time, root, meta, operations), *row)
        columns = msgspec.structs.asdict(commit)
        tx.save_commit(columns.pop("id"), commit, columns)


def _check(store: Store, path: Path, progress: Progress) -> None:
    with store.snapshot() as tx:
        faults = list(islice(check_objects(tx, progress), MAX_NAMED))
    if faults:
        named = "; ".join(str(fault) for fault in faults)
        raise StoreFormatError(
            f"The archive {path} is not sound, so no reference was created: {named}. "
            "Delete this store, and import another archive."
        )


def _publish(tx: WriteTransaction, header: Header) -> None:
    for saved in header.references:
        tx.get_reference(saved.name, lock=True)
        head = bytes.fromhex(saved.head) if saved.head else None
        tx.insert_reference(ReferenceRecord(saved.name, saved.type, head, saved.created_at, saved.properties))
    for name, value in header.settings.items():
        tx.put_setting(name, value)
    bulk.set_last_seq(tx, header.last_seq)
    bulk.delete_setting(tx, IMPORT)
