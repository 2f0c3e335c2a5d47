"""The sweep as a run: expands a live set, lists its bases, records what is dead, and deletes it at once or later.

Taken up where it stopped after a failure: bases that have been listed are not listed again, files that have been
deleted are not deleted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.gc import identify as runs
from nessie_ops.gc.bases import Bases, Blocked, Bounds, choose_bases
from nessie_ops.gc.deletion import Outcome, delete_candidates
from nessie_ops.gc.expand import Broken, Expander, Expansion, Wanted
from nessie_ops.gc.identify import Context, MarkSettings, from_micros
from nessie_ops.gc.live import Bloom, Exact, LivePlaces, Overfull
from nessie_ops.gc.recheck import Recheck
from nessie_ops.gc.source import Source
from nessie_ops.gc.storage import Stores
from nessie_ops.gc.sweep import Sweep, Verdict, count_candidates
from nessie_ops.gc.unreferenced import Dropped, find_unreferenced, locate
from nessie_ops.model import CommitHash
from nessie_ops.store.livesets import BaseRecord, LiveSetRecord, LiveSets

GRACE = timedelta(hours=24)  # what was written so long before the mark may belong to a commit that came after it
MAX_FILES = 1_000_000  # deleted without --force
MAX_SHARE = 0.5  # of the files that were listed, deleted without --force
EXACT_FILES = 20_000_000  # live files up to which digests are held in memory, at some 100 bytes each


class SweepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to sweep; `max_modified_at` in microseconds since 1970, None: the mark's beginning less `grace`."""

    max_modified_at: int | None = None
    grace: timedelta = GRACE
    is_exact: bool = True
    expected_files: int = 1_000_000
    fpp: float = 0.00001
    allowed_fpp: float = 0.0001
    only_named: bool = False
    unreferenced_age: timedelta | None = None  # contents that nobody has held for so long are swept, too
    allowed_locations: tuple[str, ...] = ()
    max_files: int = MAX_FILES
    max_share: float = MAX_SHARE
    is_forced: bool = False
    is_deferred: bool = False
    is_dry_run: bool = False


class Swept(NamedTuple):
    """What a sweep found and did; `stopped` says why it deleted nothing or not all."""

    record: LiveSetRecord
    expansion: Expansion
    bases: Bases
    verdicts: list[Verdict]
    outcome: Outcome | None
    stopped: str


def max_modified_at(settings: SweepSettings, record: LiveSetRecord) -> int:
    """Files changed after this are kept; BadRequest when that is less than the grace before the mark, unforced."""
    grace = settings.grace // timedelta(microseconds=1)
    limit = record.created_at - grace if settings.max_modified_at is None else settings.max_modified_at
    if limit > record.created_at - GRACE // timedelta(microseconds=1) and not settings.is_forced:
        raise BadRequest(
            "max-file-modification: files that were changed less than 24 hours before the mark may belong to a commit "
            "that is still to come; give an earlier instant, a --grace-period of PT24H or more, or --force."
        )
    return min(limit, record.created_at)  # nothing that was written since the mark was seen by it


def sweep(sets: LiveSets, id: str, source: Source, stores: Stores, settings: SweepSettings, context: Context) -> Swept:
    """Sweep a live set; what goes wrong with one table is told in the result, all else is raised and can be resumed."""
    limit = max_modified_at(settings, runs.get_live_set(sets, id))
    statuses = (runs.IDENTIFY_SUCCESS, runs.EXPIRY_IN_PROGRESS, runs.EXPIRY_FAILED)
    record = runs.take(sets, id, statuses, context)
    started = record.expiry_started_at or context.now()
    sets.change(record.number, expected={}, status=runs.EXPIRY_IN_PROGRESS, expiry_started_at=started, error="")
    try:
        swept = _sweep(sets, record, source, stores, settings, limit, context)
    except BaseException as error:
        runs.fail(sets, record, runs.EXPIRY_FAILED, error)
        raise
    status = runs.EXPIRY_FAILED if swept.stopped else runs.EXPIRY_SUCCESS
    if settings.is_dry_run:
        status = runs.IDENTIFY_SUCCESS  # as before; what was recorded is found again
    sets.change(record.number, expected={}, status=status, expired_at=context.now(), owner="", error=swept.stopped)
    return swept._replace(record=runs.get_live_set(sets, id))


def _sweep(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    limit: int,
    context: Context,
) -> Swept:
    live, expansion = expand_live(sets, record, source, stores, settings, context)
    known = _known_bases(sets, record, source, stores, settings, expansion, context)
    bases = choose_bases(stores, Bounds(stores, settings.allowed_locations), expansion, known)
    sets.add_bases(
        record.number,
        (BaseRecord(content, base) for base, contents in bases.owners.items() for content in contents),
    )
    done = {base.place for base in sets.list_bases(record.number) if base.is_listed}
    finder = Sweep(
        stores,
        sets,
        record.number,
        live,
        Blocked(stores, expansion, bases),
        max_modified_at=limit,
        progress=context.progress,
    )
    verdicts = finder.find([base for base in bases.listed if base not in done])
    runs.renew(sets, record, context)
    stopped = _too_many(verdicts, settings)
    outcome = None
    if not stopped and not settings.is_dry_run and not settings.is_deferred:
        recheck = make_recheck(sets, record, source, stores, settings.only_named)
        outcome = delete_candidates(stores, sets, record.number, recheck, progress=context.progress)
        stopped = describe_broken(outcome.broken)
    return Swept(record, expansion, bases, verdicts, outcome, stopped)


def _known_bases(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    expansion: Expansion,
    context: Context,
) -> list[tuple[str, str]]:
    """Where files lie of contents that are not live, and where earlier sweeps saw those of the others."""
    dropped: dict[str, Dropped] = {}
    if settings.unreferenced_age is not None:
        held_since = from_micros(record.created_at) - settings.unreferenced_age
        dropped = find_unreferenced(source, runs.pinned(sets, record), held_since, context.progress)
    wanted = expansion.locations.keys() | dropped.keys()
    remembered = [(base.content_id, base.place) for base in sets.list_known_bases() if base.content_id in wanted]
    return remembered + locate(stores, dropped)


def expand_live(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    context: Context,
) -> tuple[LivePlaces, Expansion]:
    """The live files of a live set; a Bloom filter that is too small is made anew, twice as large."""
    expected = settings.expected_files
    while True:
        live: LivePlaces = Exact() if settings.is_exact else Bloom(expected, settings.fpp, settings.allowed_fpp)
        expander = Expander(stores, live, only_named=settings.only_named, progress=context.progress)
        try:
            expansion = expander.expand(
                Wanted(row.content_id, bool(row.is_table), row.metadata_location, row.snapshot_id)
                for row in sets.list_versions(record.number)
            )
        except Overfull:
            expected *= 2
            continue
        _break_heads(sets, record, source, expander)
        return live, expansion


def _break_heads(sets: LiveSets, record: LiveSetRecord, source: Source, expander: Expander) -> None:
    """Metadata that is gone was collected by an earlier run, unless a head shows it: then its table is broken."""
    missing = expander.result.missing
    if not missing:
        return
    for hash in dict.fromkeys(reference.hash for reference in sets.list_references(record.number)):
        for put in source.visible(CommitHash(hash)):
            location = put.version.metadata_location
            if location in missing:
                expander.break_(missing[location], location, FileNotFoundError("the metadata of a head is missing"))


def make_recheck(sets: LiveSets, record: LiveSetRecord, source: Source, stores: Stores, only_named: bool) -> Recheck:
    """What looks at the references again, from where the mark pinned them."""
    policies = msgspec.json.decode(record.settings, type=MarkSettings).policies
    return Recheck(source, stores, runs.pinned(sets, record), policies.of, only_named=only_named)


def _too_many(verdicts: Sequence[Verdict], settings: SweepSettings) -> str:
    dead, listed = count_candidates(verdicts)
    if settings.is_forced or dead <= min(settings.max_files, int(settings.max_share * listed)):
        return ""
    return (
        f"{dead:,} of {listed:,} files would be deleted, more than --max-deletions {settings.max_files:,} or "
        f"--max-deletion-share {settings.max_share}: look at the report, then use --force."
    )


def describe_broken(broken: Iterable[Broken]) -> str:
    """Why deletion stopped; empty when it did not."""
    first = next(iter(broken), None)
    return f"A reference moved to what cannot be read: {first.location}: {first.why}" if first else ""
