"""MergeRequests: the facade through which merge requests are made, vouched for, merged and closed.

Invariant: the commit that merges a request and its state MERGED are one transaction.  So however often it is asked
for, and whatever answers are lost, a request is merged once, and whoever asks again learns of the same commit.  Only
the commit that checks were reported for is merged, and only while the source still ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from nessie_ops.errors import (
    BadRequest,
    Forbidden,
    MergeRequestNotFound,
    MergeRequestNotReady,
    ReferenceConflict,
    ReferenceNotFound,
)
from nessie_ops.mergerequests import rules
from nessie_ops.mergerequests.documents import from_record, to_record
from nessie_ops.model import (
    CheckResult,
    CommitHash,
    Merge,
    MergeRequest,
    MergeRequestState,
    MergeRequestStep,
    NewCommit,
    NewMergeRequest,
)
from nessie_ops.store import MergeRequestRecord, Transaction, WriteTransaction
from nessie_ops.versioning import VersionStore, merging, references
from nessie_ops.versioning.codec import to_hash

NUMBER = "nessie_ops.merge_request"  # property of the commit that merges one
MAX_LIVE = 10_000  # open ones and those in conflict
Change = Callable[[WriteTransaction, MergeRequest, datetime], MergeRequest]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class _Found(NamedTuple):
    request: MergeRequest
    record: MergeRequestRecord


class MergeRequests:
    """The merge requests of a catalog.  Each method is one transaction."""

    def __init__(self, versions: VersionStore, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self._versions = versions
        self._store = versions.store
        self._clock = clock

    def list_merge_requests(
        self,
        *,
        state: MergeRequestState | None = None,
        source: str = "",
        target: str = "",
        before: int | None = None,
        limit: int = 1_000,
    ) -> list[MergeRequest]:
        """Merge requests, newest first, from below the number `before`."""
        with self._store.read() as tx:
            found = tx.list_merge_requests(state=state or "", source=source, target=target, before=before, limit=limit)
            names = sorted({record.source for record in found if record.state != MergeRequestState.MERGED})
            heads = {
                name: to_hash(record.head)
                for start in range(0, len(names), 500)
                for name, record in tx.get_references(names[start : start + 500]).items()
            }
        return [from_record(record, heads.get(record.source)) for record in found]

    def get_merge_request(self, number: int) -> MergeRequest:
        """MergeRequestNotFound."""
        with self._store.read() as tx:
            return self._find(tx, number).request

    def create_merge_request(self, new: NewMergeRequest) -> MergeRequest:
        """Ask for a merge; BadRequest, ReferenceNotFound, MergeRequestNotReady (the source ends elsewhere).

        Asked again for the same commit, it is the same request, also when that has been merged.  One that is open or
        in conflict moves on to a new commit of its source, for which nothing has been reported yet.  Either way it
        then requires what either asked for, and has the newer title, reason and properties where these are given.
        """
        rules.check_new(new)
        target = new.target or self._versions.default_branch
        if new.source == target:
            raise BadRequest(f"source: '{target}' cannot be merged into itself.")
        if new.delete_source and new.source == self._versions.default_branch:
            raise BadRequest(f"deleteSource: '{new.source}' is the default branch, which cannot be deleted.")
        return self._store.run(lambda tx: self._create(tx, new, target), new.source, target)

    def _create(self, tx: WriteTransaction, new: NewMergeRequest, target: str) -> MergeRequest:
        references.get_branch_record(tx, target, "merge")
        record = tx.get_reference(new.source, lock=True)
        head = to_hash(record.head) if record else None
        request = _find_known(tx, new.source, target, head)
        commit = new.source_hash or head
        if request and request.state is not MergeRequestState.CLOSED and request.source_hash == commit:
            more = rules.ask_more(request, new) if request.state in rules.LIVE else request
            return self._save(tx, more) if more != request else request
        if head is None:
            raise ReferenceNotFound(f"Named reference '{new.source}' not found")
        if commit != head:
            raise MergeRequestNotReady(f"'{new.source}' is at {head}, not at {commit}: someone wrote to it.")
        now = self._clock()
        if request and request.state in rules.LIVE:
            return self._save(tx, rules.move(rules.ask_more(request, new), head, now, new.author))
        if tx.count_merge_requests(rules.LIVE) >= MAX_LIVE:
            raise BadRequest(f"source: {MAX_LIVE} merge requests are open, the most that may be; close some.")
        request = _make(new, target, head, now)
        request = from_record(to_record(request)._replace(number=tx.take_request_number()), head)
        return self._save(tx, request)

    def report_checks(
        self, number: int, commit: CommitHash, results: Sequence[CheckResult], *, by: str = ""
    ) -> MergeRequest:
        """Record what checks found at `commit`; MergeRequestNotReady when that is not what is to be merged."""
        rules.check_results(results)

        def change(tx: WriteTransaction, request: MergeRequest, now: datetime) -> MergeRequest:
            rules.require_live(request, "reported on")
            rules.require_commit(request, commit)
            return rules.add_results(request, results, now, by)

        return self._change(number, by, change)

    def approve_merge_request(self, number: int, commit: CommitHash, *, by: str) -> MergeRequest:
        """Approve the merge of exactly `commit`; MergeRequestNotReady when that is not what is to be merged."""
        if not by.strip():
            raise BadRequest("by: say who approves.")

        def change(tx: WriteTransaction, request: MergeRequest, now: datetime) -> MergeRequest:
            rules.require_live(request, "approved")
            rules.require_commit(request, commit)
            return rules.approve(request, now, by)

        return self._change(number, by, change)

    def retry_merge_request(self, number: int, *, by: str = "") -> MergeRequest:
        """Open again, at the commit where its source ends now; ReferenceNotFound, MergeRequestNotReady (merged)."""

        def change(tx: WriteTransaction, request: MergeRequest, now: datetime) -> MergeRequest:
            if request.state is MergeRequestState.MERGED:
                raise MergeRequestNotReady(f"Merge request {number} is merged already, as {request.merge_hash}.")
            head = to_hash(references.get_record(tx, request.source).head)
            other = _find_known(tx, request.source, request.target, head)
            if other and other.number != number and other.state in rules.LIVE:
                raise MergeRequestNotReady(f"Merge request {other.number} asks for the same, and is {other.state}.")
            return rules.move(request, head, now, by)

        return self._change(number, by, change)

    def close_merge_request(
        self, number: int, reason: str, *, by: str = "", commit: CommitHash | None = None
    ) -> MergeRequest:
        """Close without merging; one that is closed stays as it is.

        MergeRequestNotReady when it is merged, and when it is no longer about `commit`, which may be left out.
        """
        if not reason.strip():
            raise BadRequest("reason: say why.")
        rules.check_words("reason", reason)

        def change(tx: WriteTransaction, request: MergeRequest, now: datetime) -> MergeRequest:
            if request.state is MergeRequestState.CLOSED:
                return request
            rules.require_live(request, "closed")
            if commit is not None:
                rules.require_commit(request, commit)
            return rules.close(request, reason, now, by)

        return self._change(number, by, change)

    def merge_merge_request(self, number: int, *, by: str = "") -> MergeRequest:
        """Merge what checks vouch for, once; the answer's state tells what became of it.

        MERGED, also when that was done before; CONFLICT when the target changed the same keys; CLOSED when a required
        check failed, or the source moved on, is gone or quarantined.  MergeRequestNotReady while a check or the
        approval is missing, and for one that is closed.
        """

        def change(tx: WriteTransaction, request: MergeRequest, now: datetime) -> MergeRequest:
            if request.state is MergeRequestState.MERGED:
                return request
            if request.state is not MergeRequestState.OPEN:
                raise MergeRequestNotReady(f"Merge request {number} is {request.state}: {request.outcome}.")
            if why := rules.why_not(request):
                return rules.close(request, why, now, by)
            if request.waits_for:
                raise MergeRequestNotReady(f"Merge request {number} waits for: {', '.join(request.waits_for)}.")
            return self._merge(tx, request, now, by)

        return self._change(number, by, change)

    def _merge(self, tx: WriteTransaction, request: MergeRequest, now: datetime, by: str) -> MergeRequest:
        properties = request.properties | {NUMBER: (str(request.number),)}
        authors = (request.author,) if request.author else ()
        message = "\n\n".join(part for part in (request.title, request.reason) if part)
        meta = NewCommit(message=message, committer=by, authors=authors, properties=properties)
        wanted = Merge(from_ref=request.source, from_hash=request.source_hash, meta=meta, conflicts_as_result=True)
        try:
            result = merging.merge(tx, request.target, None, wanted, self._clock)
        except (BadRequest, Forbidden, ReferenceNotFound) as error:  # quarantined, or nothing to merge into any more
            return rules.close(request, error.message, now, by)
        except ReferenceConflict as error:  # with namespaces of the target
            return rules.refuse(request, error.conflicts, now, by)
        if not result.was_successful:
            conflicts = [row.conflict for row in result.details if row.conflict]
            return rules.refuse(request, conflicts, now, by)
        assert result.resultant_target_hash is not None  # not a dry run
        if request.delete_source:
            references.delete_reference(
                tx, request.source, request.source_hash, self._versions.default_branch, self._clock()
            )
        return rules.finish(request, result.resultant_target_hash, now, by, is_written=result.was_applied)

    def _change(self, number: int, by: str, change: Change) -> MergeRequest:
        """Let `change` make the request's next state of the one it has; what it writes is one with that."""
        rules.check_who("by", by)
        known = self.get_merge_request(number)

        def run(tx: WriteTransaction) -> MergeRequest:
            before = self._find(tx, number, lock=True)
            after = change(tx, before.request, self._clock())
            return self._save(tx, after) if to_record(after) != before.record else after

        return self._store.run(run, known.source, known.target)

    def _find(self, tx: Transaction, number: int, *, lock: bool = False) -> _Found:
        record = tx.get_merge_request(number, lock=lock)
        if record is None:
            raise MergeRequestNotFound(f"Merge request {number} not found")
        source = tx.get_reference(record.source)
        return _Found(from_record(record, to_hash(source.head) if source else None), record)

    def _save(self, tx: WriteTransaction, request: MergeRequest) -> MergeRequest:
        tx.save_merge_request(to_record(request))
        return request


def _find_known(tx: Transaction, source: str, target: str, head: CommitHash | None) -> MergeRequest | None:
    """The request for these two that is open or in conflict, else the newest one."""
    for state in (*rules.LIVE, ""):
        for record in tx.list_merge_requests(state=state, source=source, target=target, limit=1):
            return from_record(record, head)
    return None


def _make(new: NewMergeRequest, target: str, commit: CommitHash, now: datetime) -> MergeRequest:
    return MergeRequest(
        number=0,
        source=new.source,
        source_hash=commit,
        target=target,
        title=new.title or f"Merge {new.source} into {target}",
        reason=new.reason,
        author=new.author,
        state=MergeRequestState.OPEN,
        required_checks=new.required_checks,
        needs_approval=new.needs_approval,
        delete_source=new.delete_source,
        created_at=now,
        updated_at=now,
        steps=(MergeRequestStep(at=now, what=f"opened at {commit}", by=new.author),),
        properties=new.properties,
    )
