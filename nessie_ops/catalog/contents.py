"""Checks that the files of every table and view of references exist: `nessie-ops check content`.

References are read once, at the commits that they have at the start, and only where they differ from the
first of them; writers may go on.  Files are looked at by the audit, which knows no references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from nessie_ops.catalog.audit import Audit, Problem, Progress
from nessie_ops.catalog.livefiles import FileKind
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.presence import Fault
from nessie_ops.catalog.stores import AWS, S3
from nessie_ops.model import (
    Branch,
    CommitHash,
    Content,
    ContentKey,
    ContentType,
    IcebergTable,
    IcebergView,
    Reference,
    ReferenceType,
)
from nessie_ops.versioning.versionstore import VersionStore

_PAGE = 1000  # rows of one listing
_KEYS = 250  # keys of one look-up


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """A file that is not as it must be, for one table or view on the references that have it under this name."""

    fault: Fault
    kind: FileKind
    file: str
    detail: str
    table: str
    references: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.references)
        return f"{self.table} ({names}): {self.fault} {self.kind} {self.file} {self.detail}"


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """What has been looked at: tables and views are distinct metadata files, `skipped` other contents by type."""

    references: int
    commits: int
    tables: int
    views: int
    skipped: dict[str, int]
    files: dict[str, int]
    faults: dict[str, int]
    unlisted: int

    @property
    def is_sound(self) -> bool:
        """Whether all that was looked at is there; what lies outside the warehouse was not looked at."""
        return not self.unlisted and set(self.faults) <= {Fault.OUTSIDE}


class Report(NamedTuple):
    """Findings by table, kind and file; `unlisted` files of the summary have problems, too, but were too many."""

    findings: list[Finding]
    summary: Summary


def check_contents(
    versions: VersionStore, warehouse: Warehouse, names: Sequence[str], progress: Progress, s3: S3 = AWS
) -> Report:
    """Audit the references `names` (none: all branches and tags); ReferenceNotFound."""
    commits: dict[CommitHash, list[str]] = {}
    for reference in _list_references(versions, names):
        commits.setdefault(reference.hash, []).append(reference.name)
    faulty: dict[str, list[Problem]] = {}  # by metadata location
    suspects: set[ContentKey] = set()
    heads: Counter[ContentType] = Counter()
    skipped: dict[ContentType, set[object]] = {}
    with Audit(warehouse, progress, s3) as audit:
        for key, content in _list_contents(versions, list(commits)):
            if not isinstance(content, IcebergTable | IcebergView):
                skipped.setdefault(content.type, set()).add(content.id)
                continue
            before = audit.counts[FileKind.METADATA]
            problems = audit.check(content.metadata_location, is_table=isinstance(content, IcebergTable))
            heads[content.type] += audit.counts[FileKind.METADATA] - before
            if problems:
                faulty[content.metadata_location] = problems
                suspects.add(key)
    findings = _find_owners(versions, commits, faulty, suspects)
    faults = Counter(problem for problems in faulty.values() for problem in problems)
    summary = Summary(
        references=sum(map(len, commits.values())),
        commits=len(commits),
        tables=heads[ContentType.ICEBERG_TABLE],
        views=heads[ContentType.ICEBERG_VIEW],
        skipped={str(kind): len(ids) for kind, ids in sorted(skipped.items())},
        files={str(kind): count for kind, count in audit.counts.items()},
        faults={str(fault): count for fault, count in Counter(problem.fault for problem in faults).items()},
        unlisted=audit.unlisted,
    )
    return Report(findings, summary)


def _list_references(versions: VersionStore, names: Sequence[str]) -> Iterator[Reference]:
    if names:
        yield from (versions.get_reference(name) for name in dict.fromkeys(names))
        return
    after = None
    while page := versions.list_references(after=after, limit=_PAGE, hidden=True):
        yield from page
        last = page[-1]
        after = (ReferenceType.BRANCH if isinstance(last, Branch) else ReferenceType.TAG, last.name)


def _list_contents(versions: VersionStore, commits: Sequence[CommitHash]) -> Iterator[tuple[ContentKey, Content]]:
    """All contents of the first commit, then those of each other one that it has otherwise or not at all."""
    for commit in commits[:1]:
        start: ContentKey | None = None
        while True:
            entries = versions.list_entries(commit, first=start, limit=_PAGE + 1, with_content=True)
            yield from ((entry.name, entry.content) for entry in entries[:_PAGE] if entry.content)
            if len(entries) <= _PAGE:
                break
            start = entries[_PAGE].name
    for commit in commits[1:]:
        start = None
        while True:
            rows = versions.diff(commits[0], commit, first=start, limit=_PAGE + 1)
            yield from ((row.key, row.after) for row in rows[:_PAGE] if row.after)
            if len(rows) <= _PAGE:
                break
            start = rows[_PAGE].key


def _find_owners(
    versions: VersionStore,
    commits: Mapping[CommitHash, Sequence[str]],
    faulty: Mapping[str, Sequence[Problem]],
    suspects: Iterable[ContentKey],
) -> list[Finding]:
    """The problems with all references that have them; `suspects` are the keys under which they were seen."""
    keys = sorted(suspects)
    owners: dict[tuple[ContentKey, Problem], list[str]] = {}
    for commit, names in commits.items():
        for start in range(0, len(keys), _KEYS):
            for key, content in versions.get_contents(commit, keys[start : start + _KEYS]).items():
                if isinstance(content, IcebergTable | IcebergView):
                    for problem in faulty.get(content.metadata_location, ()):
                        owners.setdefault((key, problem), []).extend(names)
    return [
        Finding(*problem, table=str(key), references=tuple(sorted(names)))
        for (key, problem), names in sorted(owners.items())
    ]
