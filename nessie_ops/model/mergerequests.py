"""Merge requests: a branch, at one commit, shall be merged into another once named checks vouch for that commit."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nessie_ops.model.ids import CommitHash
from nessie_ops.model.merges import Conflict


class MergeRequestState(StrEnum):
    """`CONFLICT` waits for a new commit of its source, or for a person; `MERGED` is final."""

    OPEN = "OPEN"
    CONFLICT = "CONFLICT"
    MERGED = "MERGED"
    CLOSED = "CLOSED"


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a check found at the commit that is to be merged; `summary` is for people."""

    name: str
    passed: bool
    summary: str = ""


class NewMergeRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a caller says of a merge request.

    Without `target` it is the default branch, without `source_hash` the source's head.  `properties` become those
    of the commit that merges it; `delete_source`: the source is deleted with the merge.
    """

    source: str
    source_hash: CommitHash | None = None
    target: str = ""
    title: str = ""
    reason: str = ""
    author: str = ""
    required_checks: tuple[str, ...] = ()
    needs_approval: bool = False
    delete_source: bool = False
    properties: dict[str, tuple[str, ...]] = {}


class MergeRequestStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done to a merge request, when and by whom."""

    at: datetime
    what: str
    by: str = ""


class MergeRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A merge request as it is now.

    `waits_for` names the checks that have not been reported for `source_hash`, and `approval`; `failed` the required
    checks that did not pass there.  `is_stale`: the source has another head by now, or is gone.  `outcome` says why
    it is closed or in conflict.  `attempt` counts the commits and retries of the source, from 1.
    """

    number: int
    source: str
    source_hash: CommitHash
    target: str
    title: str
    reason: str
    author: str
    state: MergeRequestState
    required_checks: tuple[str, ...]
    checks: tuple[CheckResult, ...] = ()
    waits_for: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    needs_approval: bool = False
    approved_by: str = ""
    is_stale: bool = False
    delete_source: bool = False
    attempt: int = 1
    outcome: str = ""
    conflicts: tuple[Conflict, ...] = ()
    merge_hash: CommitHash | None = None
    created_at: datetime
    updated_at: datetime
    steps: tuple[MergeRequestStep, ...] = ()
    properties: dict[str, tuple[str, ...]] = {}

    @property
    def is_green(self) -> bool:
        """Whether it can be merged: open, all required checks passed at exactly its commit, approved where needed."""
        return self.state is MergeRequestState.OPEN and not (self.waits_for or self.failed or self.is_stale)
