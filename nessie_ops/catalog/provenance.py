"""Where a table's data comes from: which commit of a reference brought a snapshot, a file, or the rows of a predicate.

A snapshot is in the metadata of every later version of its table until it expires, so the oldest version that lists it
is found by halves: the history of one table costs one pass over the log and some ten metadata files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nessie_ops.errors import BadRequest, ContentNotFound, MetadataUnavailable, NessieOpsError
from nessie_ops.model import CommitHash, CommitMeta, Content, ContentKey, Delete, IcebergTable, LogEntry, PutLog

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

MAX_FILES = 1_000  # with rows of a predicate, that are told
_PAGE = 1_000

_MAX_REWRITES = 100  # compactions of compactions that rows are followed through
Load = Callable[[CommitHash, ContentKey], "Table"]
"""The table of that name as it is at a commit."""


class History(Protocol):
    """A version store, or a client of one."""

    def list_log(
        self, at: CommitHash, *, limit_hash: CommitHash | None = None, limit: int = 250, with_operations: bool = False
    ) -> list[LogEntry]:
        """Commits from `at` backwards."""

    def get_contents(self, at: CommitHash, keys: Sequence[ContentKey]) -> Mapping[ContentKey, Content]:
        """Those of the keys that are there."""


class Version(NamedTuple):
    """A commit that put a table, with its name and snapshot then; None for a table without one."""

    meta: CommitMeta
    snapshot_id: int | None
    key: ContentKey


class Origin(NamedTuple):
    """A snapshot and the commit that brought it; None when no commit that is left has it.

    `summary` is Iceberg's: `operation`, `added-records`, `deleted-records`, `total-records` and others.  `files` are
    those that were asked for and came with this snapshot.
    """

    snapshot_id: int | None
    summary: dict[str, str]
    commit: CommitMeta | None
    files: tuple[str, ...] = ()


class Wanted(NamedTuple):
    """What is asked about: a snapshot, a file by its path or the end of it, or rows; none of them: what is newest."""

    snapshot_id: int | None = None
    file: str = ""
    rows: str = ""


def list_versions(history: History, head: CommitHash, key: ContentKey) -> Iterator[Version]:
    """The commits on the line from `head` that put the table `key`, newest first, also under its older names.

    Ends where it was deleted before.
    """
    at, seen = head, None
    while True:
        entries = history.list_log(at, limit=_PAGE, with_operations=True)
        for entry in entries if seen is None else entries[1:]:
            for operation in entry.operations or ():
                if operation.key == key:
                    content = operation.content if isinstance(operation, PutLog) else None
                    if not isinstance(content, IcebergTable):
                        return
                    snapshot = content.snapshot_id
                    yield Version(entry.commit_meta, None if snapshot < 0 else snapshot, key)
                    key = _name_before(history, entry, content) or key
                    break
        if not entries or entries[-1].commit_meta.hash == seen:
            return
        at = seen = entries[-1].commit_meta.hash


def _name_before(history: History, entry: LogEntry, content: IcebergTable) -> ContentKey | None:
    """The name that a table had before a commit which renamed it."""
    deleted = [operation.key for operation in entry.operations or () if isinstance(operation, Delete)]
    found = history.get_contents(entry.parent_commit_hash, deleted) if deleted else {}
    return next((key for key, old in found.items() if old.id == content.id), None)


def find_commit(versions: Sequence[Version], snapshot_id: int, load: Load) -> CommitMeta | None:
    """The oldest of a table's versions, newest first, that has a snapshot; None when none has."""
    exact = [version.meta for version in versions if version.snapshot_id == snapshot_id]
    if exact and exact[-1] == versions[-1].meta:
        return exact[-1]
    newest = versions.index(next(version for version in versions if version.meta == exact[-1])) if exact else 0
    if not exact and not _has(load, versions[0], snapshot_id):
        return None
    low, high = newest, len(versions) - 1  # `low` has it; what is older than `high` is not known to lack it
    while low < high:
        middle = (low + high + 1) // 2
        if _has(load, versions[middle], snapshot_id):
            low = middle
        else:
            high = middle - 1
    return versions[low].meta


def _has(load: Load, version: Version, snapshot_id: int) -> bool:
    snapshots = load(version.meta.hash, version.key).metadata.snapshots
    return any(snapshot.snapshot_id == snapshot_id for snapshot in snapshots)


def trace(history: History, head: CommitHash, key: ContentKey, load: Load, wanted: Wanted) -> list[Origin]:
    """The snapshots that `wanted` asks for, each with the commit that brought it; newest first.

    ContentNotFound when `key` is no table at `head`; BadRequest when there is no such snapshot, file or column;
    MetadataUnavailable when the table's manifests or data cannot be read.
    """
    versions = list(list_versions(history, head, key))
    if not versions:
        raise ContentNotFound(f"'{key}' is no table at {head}{_tell_deletion(history, head, key)}.", key)
    table = load(head, key)
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    with _reading(key):
        chosen = _choose(table, wanted)
    return [
        Origin(id, _summary(known.get(id) if id is not None else None), _commit_of(versions, id, load), tuple(files))
        for id, files in chosen
    ]


def _tell_deletion(history: History, head: CommitHash, key: ContentKey) -> str:
    for entry in history.list_log(head, limit=_PAGE, with_operations=True):
        if any(operation.key == key and isinstance(operation, Delete) for operation in entry.operations or ()):
            return f": commit {entry.commit_meta.hash} deleted it; ask with --ref @{entry.parent_commit_hash}"
    return ""


def _commit_of(versions: Sequence[Version], id: int | None, load: Load) -> CommitMeta | None:
    return versions[-1].meta if id is None else find_commit(versions, id, load)


def _choose(table: Table, wanted: Wanted) -> list[tuple[int | None, list[str]]]:
    if wanted.snapshot_id is not None:
        return [(wanted.snapshot_id, [])]
    if wanted.file:
        found = _files_of(table, lambda path: path.endswith(wanted.file))
        if not found:
            raise BadRequest(f"file: no data or delete file of the table now ends with '{wanted.file[:200]}'.")
    elif wanted.rows:
        found = _find_rows(table, wanted.rows)
    else:
        current = table.current_snapshot()
        return [(current.snapshot_id if current else None, [])]
    order = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    return sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1, reverse=True)


def _find_rows(table: Table, predicate: str) -> dict[int | None, list[str]]:
    """Files with rows of the predicate by the snapshot that added them; of rewritten ones also what they came from.

    A row that a MERGE copied along with others of its file counts as the MERGE's.
    """
    found: dict[int | None, list[str]] = {}
    at = [snapshot.snapshot_id] if (snapshot := table.current_snapshot()) else []
    for snapshot_id in at:
        paths = _files_with(table, predicate, snapshot_id)
        for id, files in _files_of(table, paths.__contains__, snapshot_id).items():
            if id not in found:
                found[id] = files
                added = table.snapshot_by_id(id) if id is not None else None
                parent = added.parent_snapshot_id if added and _summary(added).get("operation") == "replace" else None
                if parent and parent not in at and table.snapshot_by_id(parent) and len(at) < _MAX_REWRITES:
                    at.append(parent)
    return found


def _files_of(
    table: Table, matches: Callable[[str], bool], snapshot_id: int | None = None
) -> dict[int | None, list[str]]:
    """Files of a snapshot, by default the current one, by the snapshot that added them."""
    found: dict[int | None, list[str]] = {}
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if matches(entry.data_file.file_path):
                found.setdefault(entry.snapshot_id, []).append(entry.data_file.file_path)
    return found


def _files_with(table: Table, predicate: str, snapshot_id: int) -> set[str]:
    """Data files that hold rows for which a predicate is true, at most MAX_FILES; BadRequest when it cannot be read."""
    from pyiceberg.io.pyarrow import ArrowScan

    scan: Any = table.scan(row_filter=_parse(table, predicate), snapshot_id=snapshot_id)
    found: set[str] = set()
    for task in scan.plan_files():
        reader = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter, scan.case_sensitive, limit=1)
        if reader.to_table([task]).num_rows:
            found.add(task.file.file_path)
        if len(found) == MAX_FILES:
            break
    return found


def _parse(table: Table, predicate: str) -> BooleanExpression:
    """The predicate, which names columns of the table and compares them with what they can hold."""
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import expression_to_pyarrow

    try:
        expression = parse(predicate)
        expression_to_pyarrow(bind(table.schema(), expression, case_sensitive=True))
    except Exception as error:  # the parser's and those of each type have no base in common
        raise BadRequest(f"row: '{predicate[:200]}' cannot be read: {str(error)[:300]}") from error
    return expression


@contextmanager
def _reading(key: ContentKey) -> Iterator[None]:
    """Raise MetadataUnavailable for what goes wrong with files, of which PyIceberg hands on what the storage raises."""
    try:
        yield
    except NessieOpsError:
        raise
    except Exception as error:
        message = f"files of '{key}' cannot be read: {type(error).__name__}: {str(error)[:300]}"
        raise MetadataUnavailable(message) from error


def _summary(snapshot: Any) -> dict[str, str]:
    if snapshot is None or snapshot.summary is None:
        return {}
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}
