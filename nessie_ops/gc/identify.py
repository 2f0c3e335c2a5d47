"""The mark as a run: pins the references in a live set, walks them one by one, and can be taken up where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.gc.lease import Heartbeat, is_dead
from nessie_ops.gc.mark import Live, Marker, Pinned
from nessie_ops.gc.policies import Policies, decode_bound, encode_bound
from nessie_ops.gc.shards import WHOLE, Shard
from nessie_ops.gc.source import Source
from nessie_ops.model import TRANSACTIONS, Branch, CommitHash, Reference
from nessie_ops.store.livesets import LiveSetRecord, LiveSets, ReferenceRecord, VersionRecord

IDENTIFY_IN_PROGRESS, IDENTIFY_SUCCESS, IDENTIFY_FAILED = "IDENTIFY_IN_PROGRESS", "IDENTIFY_SUCCESS", "IDENTIFY_FAILED"
EXPIRY_IN_PROGRESS, EXPIRY_SUCCESS, EXPIRY_FAILED = "EXPIRY_IN_PROGRESS", "EXPIRY_SUCCESS", "EXPIRY_FAILED"
STATUSES = (
    IDENTIFY_IN_PROGRESS,
    IDENTIFY_SUCCESS,
    IDENTIFY_FAILED,
    EXPIRY_IN_PROGRESS,
    EXPIRY_SUCCESS,
    EXPIRY_FAILED,
)
LEASE = timedelta(minutes=5)  # of the run that works on a live set, renewed at every step; then another may take over
LEASE_US = LEASE // timedelta(microseconds=1)


class Context(NamedTuple):
    """What a run has from outside: its clock, its name, and whom it tells of its progress."""

    clock: Callable[[], datetime]
    owner: str
    progress: Callable[[str, int], None]

    def now(self) -> int:
        """Microseconds since 1970."""
        return to_micros(self.clock())


class MarkSettings(msgspec.Struct, frozen=True):
    """What a live set was marked with."""

    source: str
    policies: Policies


def to_micros(time: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The time of so many microseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def begin(sets: LiveSets, source: Source, id: str, settings: MarkSettings, context: Context) -> LiveSetRecord:
    """A new live set with the references as they are now, each pinned at its commit."""
    created = context.now()  # before the references are read: what is written from here on is younger than the mark
    policies = settings.policies.validated()
    references = [
        ReferenceRecord(ordinal, reference.name, "BRANCH" if isinstance(reference, Branch) else "TAG", hash, bound)
        for ordinal, (reference, hash, bound) in enumerate(_pin(source, policies))
    ]
    sets.add(id, IDENTIFY_IN_PROGRESS, created, msgspec.json.encode(settings).decode(), references)
    return get_live_set(sets, id)


def _pin(source: Source, policies: Policies) -> Iterator[tuple[Reference, CommitHash, str]]:
    """References with the commits that they are at, and their bounds.

    Of open transactions those alone that another reference does not stand for: most begin at a few commits.
    """
    seen = set()
    for reference in source.references():
        pair = reference.hash, encode_bound(policies.of(reference.name))
        if pair not in seen or not reference.name.startswith(TRANSACTIONS):
            seen.add(pair)
            yield reference, *pair


def identify(
    sets: LiveSets, source: Source, id: str, context: Context, shards: Sequence[Shard] = WHOLE
) -> LiveSetRecord:
    """Walk the references in `shards` that have not been walked yet.  Any failure leaves what is done.

    A shard that fails does not keep the others from being walked; then the first error is raised.  The mark is
    complete, and its status says so, once all references of all shards are done.
    """
    record = take(sets, id, (IDENTIFY_IN_PROGRESS, IDENTIFY_FAILED), context)
    sets.change(record.number, expected={}, status=IDENTIFY_IN_PROGRESS, error="")
    try:
        with Heartbeat(lambda: renew(sets, record, context)) as heartbeat:
            errors = list(_walk(sets, source, record, context, heartbeat, shards))
        if errors:
            raise errors[0]
    except BaseException as error:
        fail(sets, record, IDENTIFY_FAILED, error)
        raise
    if all(reference.is_done for reference in sets.list_references(record.number)):
        release(sets, record, status=IDENTIFY_SUCCESS, identified_at=context.now(), error="")
    else:
        release(sets, record)
    return get_live_set(sets, id)


def _walk(
    sets: LiveSets,
    source: Source,
    record: LiveSetRecord,
    context: Context,
    heartbeat: Heartbeat,
    shards: Sequence[Shard],
) -> Iterator[Exception]:
    """Walk shard after shard; the errors of those that failed."""
    marker: Marker | None = None
    for shard in shards:
        references = sets.list_references(record.number)
        if marker is None:
            marker = Marker(source, context.progress)
            for reference in references:
                if reference.is_done:
                    marker.assume(_pinned(reference))
        todo = [reference for reference in references if not reference.is_done and shard.holds(reference.name)]
        try:
            for reference in todo:
                marked = marker.mark(_pinned(reference))
                versions = list(_records(marked.live))
                heartbeat.check()
                sets.finish_reference(record.number, reference.ordinal, marked.commits, marked.last, versions)
        except Exception as error:
            # It remembers commits of a walk that is not recorded, at which no other may stop.
            marker = None
            yield error


def get_live_set(sets: LiveSets, id: str) -> LiveSetRecord:
    """A live set; BadRequest when there is none."""
    found = sets.get(id)
    if found is None:
        raise BadRequest(
            f"live-set-id: there is no live set {id[:80]}; `nessie-ops gc list` shows those that there are."
        )
    return found


def get_settings(record: LiveSetRecord) -> MarkSettings:
    """What a live set was marked with."""
    return msgspec.json.decode(record.settings, type=MarkSettings)


def take(sets: LiveSets, id: str, statuses: Sequence[str], context: Context) -> LiveSetRecord:
    """A live set in one of `statuses` for this run alone; BadRequest."""
    record = get_live_set(sets, id)
    if record.status not in statuses:
        raise BadRequest(f"live-set-id: the live set {id} is in status {record.status}, not {' or '.join(statuses)}.")
    if is_dead(record.owner):
        sets.change(record.number, expected={"owner": record.owner}, owner="")
    if not sets.take(record.number, context.owner, context.now(), _until(context)):
        raise BadRequest(
            f"live-set-id: another run works on the live set {id}; should it have been killed on another machine, "
            "then its lease ends within five minutes."
        )
    if get_live_set(sets, id).status not in statuses:  # changed just before it was taken
        sets.change(record.number, expected={"owner": context.owner}, owner="")
        return take(sets, id, statuses, context)
    return get_live_set(sets, id)


def renew(sets: LiveSets, record: LiveSetRecord, context: Context) -> None:
    """Say that this run is still at work, if that was said long ago; BadRequest when another has taken over."""
    found = sets.get(record.id)
    if found and found.owner == context.owner and found.leased_until > context.now() + LEASE_US // 2:
        return
    if not sets.take(record.number, context.owner, context.now(), _until(context)):
        raise BadRequest(f"live-set-id: another run has taken over the live set {record.id}.")


def release(sets: LiveSets, record: LiveSetRecord, **values: object) -> None:
    """Set the last columns of a run and end its lease; BadRequest when another has taken over."""
    if not sets.change(record.number, expected={"owner": record.owner}, owner="", **values):
        raise BadRequest(f"live-set-id: another run has taken over the live set {record.id}.")


def fail(sets: LiveSets, record: LiveSetRecord, status: str, error: BaseException) -> None:
    """Record why a run ended."""
    text = f"{type(error).__name__}: {error}"[:10_000]
    sets.change(record.number, expected={"owner": record.owner}, status=status, owner="", error=text)


def pinned(sets: LiveSets, record: LiveSetRecord) -> list[Pinned]:
    """The references of a live set as they were marked."""
    return [_pinned(row) for row in sets.list_references(record.number)]


def _pinned(row: ReferenceRecord) -> Pinned:
    return Pinned(row.name, CommitHash(row.hash), decode_bound(row.bound))


def _until(context: Context) -> int:
    return context.now() + LEASE_US


def _records(live: Sequence[Live]) -> Iterator[VersionRecord]:
    for entry in live:
        version = entry.put.version
        yield VersionRecord(
            version.content_id,
            int(version.is_table),
            version.metadata_location,
            version.snapshot_id,
            entry.put.key.to_path(),
            entry.commit,
            entry.reference,
        )
