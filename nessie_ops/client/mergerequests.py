"""Merge requests over HTTP: the methods of MergeRequests."""

from __future__ import annotations

from collections.abc import Sequence

from nessie_ops.client.connection import Connection
from nessie_ops.model import CheckResult, CommitHash, MergeRequest, MergeRequestState, NewMergeRequest, wire

_PATH = "merge-requests"


class MergeRequestMethods(Connection):
    """What a client can do about merge requests.  Each call may be repeated when its answer was lost."""

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
        params = {"state": state or "", "source": source, "target": target}
        token = "" if before is None else wire.make_token(wire.BeforeNumber(before))
        return list(self._rows(_PATH, params, wire.MergeRequestPage, lambda page: page.merge_requests, limit, token))

    def get_merge_request(self, number: int) -> MergeRequest:
        """MergeRequestNotFound."""
        return self._get(f"{_PATH}/{number}", MergeRequest)

    def create_merge_request(self, new: NewMergeRequest) -> MergeRequest:
        """Ask for a merge; BadRequest, ReferenceNotFound, MergeRequestNotReady (the source ends elsewhere).

        Asked again for the same commit, it is the same request, also when that has been merged.
        """
        return self._write("POST", _PATH, MergeRequest, new)

    def report_checks(
        self, number: int, commit: CommitHash, results: Sequence[CheckResult], *, by: str = ""
    ) -> MergeRequest:
        """Tell what checks found at `commit`; MergeRequestNotReady when that is not what is to be merged."""
        return self._post(number, "checks", {"hash": commit, "checks": results, "by": by})

    def approve_merge_request(self, number: int, commit: CommitHash, *, by: str) -> MergeRequest:
        """Approve the merge of exactly `commit`; MergeRequestNotReady when that is not what is to be merged."""
        return self._post(number, "approve", {"hash": commit, "by": by})

    def retry_merge_request(self, number: int, *, by: str = "") -> MergeRequest:
        """Open again, at the commit where its source ends now; ReferenceNotFound, MergeRequestNotReady (merged)."""
        return self._post(number, "retry", {"by": by})

    def close_merge_request(
        self, number: int, reason: str, *, by: str = "", commit: CommitHash | None = None
    ) -> MergeRequest:
        """Close without merging; MergeRequestNotReady when it is merged, or no longer about `commit`."""
        return self._post(number, "close", {"reason": reason, "by": by, **({"hash": commit} if commit else {})})

    def merge_merge_request(self, number: int, *, by: str = "") -> MergeRequest:
        """Merge what checks vouch for, once; the answer's state tells what became of it.

        MergeRequestNotReady while a check or the approval is missing, and for one that is closed.
        """
        return self._post(number, "merge", {"by": by})

    def _post(self, number: int, what: str, body: object) -> MergeRequest:
        return self._write("POST", f"{_PATH}/{number}/{what}", MergeRequest, body)
