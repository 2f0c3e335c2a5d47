"""Branches that are lent until a time, and merge requests that nobody took up: what became of them in the end.

A branch with the property `owner` = `nessie-ops` is deleted once its `expires_at` has passed, whatever its name, and
never while somebody needs it: an open merge request, or whatever else the caller knows of.  A request from it that
waits for a person's approval does not keep it, as nobody gave one in all that time: it is closed.  Doing all
again changes nothing.  Knows nothing of runs; the caller says what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from nessie_ops.errors import MergeRequestNotReady, ReferenceConflict, ReferenceNotFound
from nessie_ops.mergerequests.rules import LIVE
from nessie_ops.model import Branch, CommitHash, MergeRequest, MergeRequestState, Reference, ReferenceType

OWNER, EXPIRES_AT = "owner", "expires_at"
OWNED = "nessie-ops"
_PAGE = 1_000


class References(Protocol):
    """A version store, or a client of one."""

    @property
    def default_branch(self) -> str: ...

    def list_references(
        self, *, prefix: str = "", after: tuple[ReferenceType, str] | None = None, limit: int = 10_000
    ) -> list[Reference]: ...

    def get_reference(self, name: str) -> Reference: ...

    def delete_reference(self, name: str, expected: CommitHash | None) -> Reference: ...


class Requests(Protocol):
    """The merge requests of the same catalog."""

    def list_merge_requests(
        self, *, state: MergeRequestState | None = None, before: int | None = None, limit: int = 1_000
    ) -> list[MergeRequest]: ...

    def close_merge_request(self, number: int, reason: str, *, by: str = "") -> MergeRequest: ...


class Reaped(msgspec.Struct, frozen=True):
    """The names of branches whose time is over: `deleted`, `kept` with the reason; `unreadable` with what they say.

    `closed` has the numbers of the requests that were for them.
    """

    deleted: list[str]
    kept: dict[str, str]
    unreadable: dict[str, str]
    closed: list[int]


def reap_expired(
    references: References,
    requests: Requests,
    now: datetime,
    is_in_use: Callable[[str], bool] = lambda name: False,
    *,
    by: str = "",
    dry_run: bool = False,
) -> Reaped:
    """Delete the branches of ours whose time is over, or say which would be; `is_in_use` tells of a branch's runs."""
    opened = list(list_open(requests))
    forgotten = {found.number: found.source for found in opened if found.needs_approval and not found.approved_by}
    asked = {found.target: found.number for found in opened}
    asked |= {found.source: found.number for found in opened if found.number not in forgotten}
    result = Reaped([], {}, {}, [])
    for branch in _list_owned(references):
        over = _is_over(branch, now)
        if over is None:
            result.unreadable[branch.name] = branch.properties[EXPIRES_AT]
        elif over and branch.name in asked:
            result.kept[branch.name] = f"merge request {asked[branch.name]} is open"
        elif over and is_in_use(branch.name):
            result.kept[branch.name] = "a run works on it"
        elif over and (dry_run or _delete(references, branch, now)):
            result.deleted.append(branch.name)
            why = f"the time of its branch was over at {branch.properties[EXPIRES_AT]}"
            for number in (number for number, source in forgotten.items() if source == branch.name):
                result.closed.append(number)
                if not dry_run:
                    _close(requests, number, why, by)
        elif over:
            result.kept[branch.name] = "somebody changed it meanwhile"
    return result


def close_old_requests(
    requests: Requests, wait: timedelta, now: datetime, *, by: str = "", dry_run: bool = False
) -> list[int]:
    """Close the merge requests for which nothing has been done for `wait`, saying so; their numbers."""
    closed = []
    for request in list_open(requests):
        since = request.updated_at
        if now - since < wait:
            continue
        reason = f"nothing was done about it since {since:%Y-%m-%d %H:%M}Z, which is longer than {_days(wait)}"
        if dry_run or _close(requests, request.number, reason, by):
            closed.append(request.number)
    return sorted(closed)


def _close(requests: Requests, number: int, reason: str, by: str) -> bool:
    try:
        requests.close_merge_request(number, reason, by=by)
    except MergeRequestNotReady:  # it was merged meanwhile
        return False
    return True


def list_open(requests: Requests) -> Iterator[MergeRequest]:
    """Merge requests that something may still come of, newest first in each state."""
    for state in LIVE:
        before: int | None = None
        while True:
            page: Sequence[MergeRequest] = requests.list_merge_requests(state=state, before=before, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                break
            before = page[-1].number


def _list_owned(references: References) -> Iterator[Branch]:
    default, after = references.default_branch, None
    while True:
        page = references.list_references(after=after, limit=_PAGE)
        for found in page:
            is_ours = found.properties.get(OWNER) == OWNED and EXPIRES_AT in found.properties
            if isinstance(found, Branch) and is_ours and found.name != default:
                yield found
        if len(page) < _PAGE or not isinstance(page[-1], Branch):
            return
        after = (ReferenceType.BRANCH, page[-1].name)


def parse_time(text: str) -> datetime | None:
    """The time that a property says in ISO 8601; None when that is no time, or one without a time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def _is_over(branch: Reference, now: datetime) -> bool | None:
    """Whether the time that the branch says has passed; None when it says none with a time zone."""
    until = parse_time(branch.properties[EXPIRES_AT])
    return None if until is None else until <= now


def _delete(references: References, branch: Reference, now: datetime) -> bool:
    """Delete a branch as it was seen; False when it has been written to, or lent for longer."""
    try:
        again = references.get_reference(branch.name)
        if again.properties.get(OWNER) != OWNED or EXPIRES_AT not in again.properties or not _is_over(again, now):
            return False
        references.delete_reference(branch.name, branch.hash)
    except ReferenceNotFound:
        return True
    except ReferenceConflict:
        return False
    return True


def _days(wait: timedelta) -> str:
    days = wait / timedelta(days=1)
    return f"{days:g} day{'' if days == 1 else 's'}"
