"""The life of a run's branch: opened from main, validated, published as one commit or quarantined, and reaped.

The catalog is the truth: what a retry must know stands in the branch's own properties, so that a killed process, a
lost answer or a second attempt finds it.  Every function may be repeated after a crash at any point.  What is
published is the commit that was validated, and only while the branch still ends there.  Knows neither Dagster nor
Spark; touches no branch without the prefix.

    base_hash       the commit of main that the branch was opened from or re-based onto
    validated_hash  the commit that all blocking checks vouch for
    conflicts       the tables for which main moved meanwhile; the next opening re-bases the branch
    rebases         how often that was done since a person last stepped in
    quarantined     why the branch may not be merged (the kernel refuses it); quarantined_at: since when
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    MergeConflict,
    NessieOpsError,
    OutcomeUnknown,
    ReferenceAlreadyExists,
    ReferenceConflict,
    ReferenceNotFound,
    StoreUnavailable,
)
from nessie_ops.model import (
    QUARANTINED,
    CommitHash,
    ContentKey,
    KeyMergeMode,
    LogEntry,
    Merge,
    MergeBehavior,
    Namespace,
    NewCommit,
    Put,
    Reference,
    ReferenceType,
)

PREFIX = "run/"
BASE, VALIDATED, CONFLICTS, REBASES = "base_hash", "validated_hash", "conflicts", "rebases"
OPENED_AT, QUARANTINED_AT = "opened_at", "quarantined_at"
RUN_ID, VALIDATED_COMMIT = "nessie_ops.root_run_id", "nessie_ops.validated_hash"  # properties of a published commit
BRANCH_NAME, BASE_COMMIT = "nessie_ops.branch", "nessie_ops.base_hash"
LEFT_OUT = "nessie_ops.left_out"  # property of a published commit: tables that it leaves as others changed them
MAX_REBASES = 3  # each is a whole run; a month that loses four times in a row needs a person
MAX_REASON = 500  # characters of a quarantine's reason
_MAX_LOG = 100_000  # commits of main looked through for one that is already there: hours of the busiest main
_LOG_PAGE = 1_000
_TRIES = 5  # of a commit that others may precede; each loss means that another succeeded

_HASH = re.compile(r"[0-9a-f]{64}")

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock of all below, unless another is given."""
    return datetime.now(UTC)


class OpenBranch(msgspec.Struct, frozen=True):
    """A run's branch as `open_branch` leaves it."""

    name: str
    head: CommitHash
    base: CommitHash
    rebases: int
    resumed: bool


class Published(msgspec.Struct, frozen=True):
    """Where `publish` left main; `already` when an earlier attempt had done it.

    `left` names the tables that it left as others changed them; if these are all, it made no commit.
    """

    commit: CommitHash
    already: bool
    left: tuple[str, ...] = ()


class Evidence(msgspec.Struct, frozen=True):
    """A blocking check that passed: its name, the commit at which it read, and the tables it read."""

    label: str
    at: CommitHash
    tables: tuple[ContentKey, ...]


class NotValidated(NessieOpsError):
    """What is on the branch is not what the checks vouch for; nothing is published."""


class RebaseNeeded(NessieOpsError):
    """main changed the same tables; `tables` names them.  `again` tells whether another attempt is allowed."""

    def __init__(self, message: str, tables: tuple[str, ...], *, again: bool) -> None:
        super().__init__(message)
        self.tables = tables
        self.again = again


def branch_name(root_run_id: str) -> str:
    """The branch of a run and of all its re-executions."""
    return f"{PREFIX}{root_run_id}"


def find_state(client: NessieClient, text: str) -> CommitHash:
    """The commit of a state of the past: a hash, or a reference with relative parts; ReferenceNotFound, BadRequest."""
    return client.resolve(f"@{text}" if _HASH.fullmatch(text) else text).hash


def ensure_namespaces(client: NessieClient, main: str, names: Iterable[str]) -> CommitHash:
    """main's head, once it has the namespaces; one commit for all that are missing."""
    keys = [ContentKey.of(name) for name in names]
    for _ in range(_TRIES):
        head = client.get_reference(main).hash
        missing = [key for key in keys if key not in client.get_contents(head, keys)]
        if not missing:
            return head
        puts = [Put(key, Namespace(elements=key.elements)) for key in missing]
        meta = NewCommit(message=f"Create namespaces {', '.join(str(key) for key in missing)}")
        try:
            return client.commit(main, head, meta, puts).target_branch.hash
        except (ReferenceConflict, OutcomeUnknown):
            continue  # another run made them, or this one did: look again
    raise NessieOpsError(f"Cannot create the namespaces {', '.join(map(str, keys))} on '{main}'; run again.")


def open_branch(
    client: NessieClient, main: str, name: str, namespaces: Iterable[str], clock: Clock = utc_now, *, base: str = ""
) -> OpenBranch:
    """The branch `name`: new at main's head, as an earlier attempt left it, or after a conflict moved to main's head.

    A new one begins at `base` when that is given, which may be any state of the past.  Opening lifts a quarantine,
    as it is what a person who re-executes the run asks for.
    """
    check_owned(name)
    head = ensure_namespaces(client, main, namespaces)
    found = find_branch(client, name)
    if found is None:
        head = find_state(client, base) if base else head
        properties = {BASE: head, REBASES: "0", OPENED_AT: clock().isoformat(timespec="seconds")}
        try:
            created = client.create_reference(ReferenceType.BRANCH, name, head, properties=properties)
            return _opened(created, resumed=False)
        except (ReferenceAlreadyExists, OutcomeUnknown):
            found = client.get_reference(name)
    if BASE not in found.properties:
        raise BadRequest(f"Branch '{name}' was not opened by a run (it has no property '{BASE}'); rename or delete it.")
    if CONFLICTS in found.properties:
        return _rebase(client, name, found, head)
    if QUARANTINED in found.properties:
        found = _release(client, found, {REBASES: "0"})
    return _opened(found, resumed=True)


def validate(client: NessieClient, name: str, evidence: Iterable[Evidence]) -> CommitHash:
    """The head of `name`, recorded as validated: every piece of evidence read what the tables hold there.

    NotValidated names the checks that read something else.
    """
    branch = client.get_reference(name)
    stale = [item.label for item in evidence if not reads_same(client, item, branch.hash)]
    if stale:
        raise NotValidated(
            f"Branch '{name}' changed after these checks read it: {', '.join(stale)}. Re-execute all steps of the run."
        )
    client.update_properties(name, {VALIDATED: branch.hash}, expected=branch.hash)
    return branch.hash


def publish(
    client: NessieClient,
    main: str,
    name: str,
    meta: NewCommit,
    validated: str | None = None,
    *,
    release: bool = True,
    leaves: bool = False,
) -> Published:
    """Merge what was validated on `name` into `main` as one commit and delete the branch; once, however often called.

    `validated` is the validated hash as the caller remembers it: it identifies the commit on main when the branch is
    gone already.  `release` lifts a quarantine, which an earlier attempt left; else a quarantined branch is Forbidden.
    `leaves`: what main changed meanwhile stays as it is there, and the rest is published; only for branches whose
    tables do not depend on each other.  NotValidated when there is nothing to vouch for the branch, RebaseNeeded when
    main changed the same tables, and the errors of a merge.
    """
    check_owned(name)
    branch = find_branch(client, name)
    done = _find_done(client, main, name, branch, validated)
    if done is None:
        if branch is None:
            raise NotValidated(
                f"Branch '{name}' is gone and '{main}' has no commit of it; re-execute all steps of the run."
            )
        if CONFLICTS in branch.properties:
            raise _rebase_needed(branch, main)
        commit = check_mergeable(branch)
        if release:
            branch = lift_quarantine(client, branch)
        published = _merge_rest(client, main, branch, commit, meta, leaves=leaves)
    else:
        published = Published(done, True, client.get_commit(done).all_properties.get(LEFT_OUT, ()))
    _drop(client, name)
    return published


def _find_done(
    client: NessieClient, main: str, name: str, branch: Reference | None, validated: str | None
) -> CommitHash | None:
    """The commit of an earlier attempt.  It is looked for first: what was written after it undoes nothing of it."""
    if branch is None or BASE not in branch.properties:
        return find_published(client, main, name, validated) if validated else None
    known = branch.properties.get(VALIDATED)
    return find_published(client, main, name, known, since=CommitHash(branch.properties[BASE])) if known else None


def find_published(
    client: NessieClient, main: str, name: str, validated: str, since: CommitHash | None = None
) -> CommitHash | None:
    """The commit of `main` (after `since`) that published the commit `validated` of branch `name`, if there is one."""
    at = client.get_reference(main).hash
    for _ in range(_MAX_LOG // _LOG_PAGE):
        page = client.list_log(at, limit_hash=since, limit=_LOG_PAGE)
        found = next((entry.commit_meta.hash for entry in page if _publishes(entry, name, validated)), None)
        if found is not None or len(page) < _LOG_PAGE or page[-1].commit_meta.hash == since:
            return found
        at = page[-1].parent_commit_hash
    return None


def quarantine(client: NessieClient, name: str, reason: str, clock: Clock = utc_now) -> bool:
    """Forbid merging `name`, saying why; False when it is no run's branch, no longer there, or quarantined already."""
    branch = find_branch(client, name) if name.startswith(PREFIX) else None
    if branch is None or QUARANTINED in branch.properties:
        return False
    since = clock().isoformat(timespec="seconds")
    client.update_properties(name, {QUARANTINED: reason[:MAX_REASON] or "unknown", QUARANTINED_AT: since})
    return True


def _rebase(client: NessieClient, name: str, found: Reference, head: CommitHash) -> OpenBranch:
    # Someone who re-executes a quarantined run starts the count anew.
    rebases = 1 if QUARANTINED in found.properties else int(found.properties[REBASES]) + 1
    # First the move: killed in between, the next opening sees the conflict still and moves the branch again.
    client.assign_reference(name, found.hash, head)
    gone = (CONFLICTS, VALIDATED, QUARANTINED, QUARANTINED_AT)
    return _opened(client.update_properties(name, {BASE: head, REBASES: str(rebases)}, gone), resumed=False)


def lift_quarantine(client: NessieClient, branch: Reference) -> Reference:
    """The branch, which may be merged."""
    return _release(client, branch) if QUARANTINED in branch.properties else branch


def _release(client: NessieClient, branch: Reference, updates: Mapping[str, str] | None = None) -> Reference:
    return client.update_properties(branch.name, updates or {}, (QUARANTINED, QUARANTINED_AT))


def _merge_rest(
    client: NessieClient, main: str, branch: Reference, commit: CommitHash, meta: NewCommit, *, leaves: bool
) -> Published:
    left: list[ContentKey] = []
    while True:
        try:
            done = _merge(client, main, branch, commit, meta, left)
            return Published(done, False, tuple(map(str, left)))
        except MergeConflict as error:
            lost = [conflict.key for conflict in error.conflicts if conflict.key and conflict.key not in left]
            if not (leaves and lost):
                raise _conflict(client, main, branch, error) from error
            left += lost  # each time at least one more, so this ends


def _merge(
    client: NessieClient, main: str, branch: Reference, commit: CommitHash, meta: NewCommit, left: Sequence[ContentKey]
) -> CommitHash:
    mark = mark_of(branch, commit)
    mark |= {LEFT_OUT: tuple(map(str, left))} if left else {}
    meta = msgspec.structs.replace(meta, properties={**meta.properties, **mark})
    modes = tuple(KeyMergeMode(key=key, merge_behavior=MergeBehavior.DROP) for key in left)
    base = CommitHash(branch.properties[BASE])
    request = Merge(from_ref=branch.name, from_hash=commit, meta=meta, key_modes=modes, only_head=True)
    try:
        result = client.merge(main, base, request)
    except MergeConflict:
        raise
    except (OutcomeUnknown, ReferenceConflict, ReferenceNotFound) as error:
        done = find_published(client, main, branch.name, commit, since=base)
        if done is not None:
            return done
        now = find_branch(client, branch.name)
        if now is None or now.hash != commit:
            raise NotValidated(f"Another attempt of this run went on with '{branch.name}': {error.message}") from error
        raise
    assert result.resultant_target_hash is not None  # not a dry run
    if result.was_applied:
        return result.resultant_target_hash
    # An earlier request whose answer was lost has come to its end meanwhile; or nothing was written.
    return find_published(client, main, branch.name, commit, since=base) or result.resultant_target_hash


def _drop(client: NessieClient, name: str) -> None:
    """Delete a branch that is published, whoever still writes to it; one that stays is found by `reap`."""
    for _ in range(_TRIES):
        try:
            client.delete_reference(name, None)
            return
        except ReferenceNotFound:
            return
        except (ReferenceConflict, OutcomeUnknown):
            continue
        except StoreUnavailable:
            return  # it is on main all the same


def _conflict(client: NessieClient, main: str, branch: Reference, error: MergeConflict) -> RebaseNeeded:
    tables = ", ".join(str(conflict.key) for conflict in error.conflicts if conflict.key)
    return _rebase_needed(client.update_properties(branch.name, {CONFLICTS: tables}), main)


def _rebase_needed(branch: Reference, main: str) -> RebaseNeeded:
    """The error for a branch that is marked as in conflict."""
    tables = branch.properties[CONFLICTS]
    rebases = int(branch.properties[REBASES])
    message = f"'{main}' changed {tables} after '{branch.name}' was opened, and so did this run"
    if rebases < MAX_REBASES:
        message = f"{message}: all its steps must run again, on top of the new '{main}'."
    else:
        message = f"{message}, {rebases + 1} times in a row. Re-execute all steps when fewer runs write these tables."
    return RebaseNeeded(message, tuple(tables.split(", ")), again=rebases < MAX_REBASES)


def mark_of(branch: Reference, commit: CommitHash) -> dict[str, tuple[str, ...]]:
    """Properties of the commit that publishes `commit` of a run's branch: by them it is found again."""
    base = branch.properties.get(BASE)
    return {
        RUN_ID: (branch.name.removeprefix(PREFIX),),
        VALIDATED_COMMIT: (commit,),
        BRANCH_NAME: (branch.name,),
        **({BASE_COMMIT: (base,)} if base else {}),
    }


def check_mergeable(branch: Reference) -> CommitHash:
    """The validated commit of a branch that ends there; NotValidated when there is none."""
    validated = branch.properties.get(VALIDATED)
    if validated is None:
        raise NotValidated(f"Branch '{branch.name}' was not validated: re-execute the run from its checks.")
    if validated != branch.hash:
        raise NotValidated(
            f"Branch '{branch.name}' was validated at {validated[:12]} and is now at {branch.hash[:12]}: "
            "someone wrote to it. Re-execute all steps of the run."
        )
    return CommitHash(validated)


def _publishes(entry: LogEntry, name: str, validated: str) -> bool:
    properties = entry.commit_meta.all_properties
    ours = properties.get(RUN_ID) == (name.removeprefix(PREFIX),)
    return ours and properties.get(VALIDATED_COMMIT) == (validated,)


def reads_same(client: NessieClient, item: Evidence, head: CommitHash) -> bool:
    """Whether what a check read is what its tables hold at `head`."""
    if item.at == head:
        return True
    return client.get_contents(item.at, item.tables) == client.get_contents(head, item.tables)


def _opened(branch: Reference, *, resumed: bool) -> OpenBranch:
    properties = branch.properties
    return OpenBranch(branch.name, branch.hash, CommitHash(properties[BASE]), int(properties[REBASES]), resumed)


def find_branch(client: NessieClient, name: str) -> Reference | None:
    """The reference, or None."""
    try:
        return client.get_reference(name)
    except ReferenceNotFound:
        return None


def check_owned(name: str) -> None:
    """BadRequest for a branch that is no run's: nothing is published from it by a run."""
    if not name.startswith(PREFIX):
        raise BadRequest(f"Branch '{name}' does not belong to a run: runs' branches begin with '{PREFIX}'.")
