"""What the catalog once held: every version of tables and views that some commit put, with that commit.

Read are the whole lines of all references, and where the source has a log of references, the lines that deleted and
moved ones were on.  Knows no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.gc.source import Commit, Source, Version
from nessie_ops.model import CommitHash


class Held(NamedTuple):
    """A version, and the last commit that put it, by time; `reference` had that commit, or once had."""

    version: Version
    key: str
    commit: str
    time: datetime
    reference: str


class TooLong(Exception):
    """There is more history than was to be read."""


def list_held(
    source: Source,
    *,
    wanted: Callable[[Version], bool] = lambda version: True,
    limit: int | None = None,
    progress: Callable[[str, int], None] = lambda step, count: None,
) -> list[Held]:
    """The versions for which `wanted` is true, newest first; TooLong when there are more than `limit`."""
    found: dict[Version, Held] = {}
    seen: set[CommitHash] = set()
    for name, hash in _starts(source):
        if hash in seen:
            continue
        for commit in _line(source, hash):
            if commit.hash in seen:
                break
            seen.add(commit.hash)
            progress("commits of the past read", len(seen))
            for put in commit.puts:
                known = found.get(put.version)
                if known is None and not wanted(put.version):
                    continue
                if known is None or known.time < commit.time:
                    found[put.version] = Held(put.version, put.key.to_path(), commit.hash, commit.time, name)
            if limit is not None and len(found) > limit:
                raise TooLong
    return sorted(found.values(), key=lambda held: held.time, reverse=True)


def _starts(source: Source) -> Iterator[tuple[str, CommitHash]]:
    """Where to begin: references as they are, then as they were, the last first."""
    for reference in source.references():
        yield reference.name, reference.hash
    for was in reversed(list(source.past())):
        yield was.name, was.hash


def _line(source: Source, at: CommitHash) -> Iterator[Commit]:
    """The commits from `at`; none when a purge has removed them."""
    try:
        yield from source.line(at)
    except ReferenceNotFound:
        return
