"""The sweep as a run: expands a live set, lists its bases, records what is dead, and deletes it at once or later.

Taken up where it stopped after a failure: bases that have been listed are not listed again, files that have been
deleted are not deleted again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.gc import identify as runs
from nessie_ops.gc.bases import Bases, Blocked, Bounds, Known, choose_bases
from nessie_ops.gc.deletion import Deletion, Outcome
from nessie_ops.gc.engine import Engine
from nessie_ops.gc.expand import Broken, Expander, Expansion, Wanted, find_lost
from nessie_ops.gc.heads import Heads, list_wanted, look
from nessie_ops.gc.identify import Context, from_micros
from nessie_ops.gc.lease import Heartbeat
from nessie_ops.gc.live import EXACT_FILES, Bloom, Exact, LivePlaces, Overfull, check_rates
from nessie_ops.gc.recheck import Recheck
from nessie_ops.gc.rewriting import Rewriter, Rewritten, name_snapshots
from nessie_ops.gc.shards import WHOLE, Shard
from nessie_ops.gc.source import Put, Source, Version
from nessie_ops.gc.storage import Stores
from nessie_ops.gc.surplus import Times
from nessie_ops.gc.sweep import LISTERS, Judge, Limits, Sweep, Verdict, count_candidates, read_verdicts
from nessie_ops.gc.unreferenced import Dropped, find_unreferenced, locate
from nessie_ops.model import CommitHash
from nessie_ops.store.livesets import BaseRecord, LiveSetRecord, LiveSets

GRACE = timedelta(hours=24)  # what was written so long before the mark may belong to a commit that came after it
MAX_FILES = 1_000_000  # deleted without --force
MAX_SHARE = 0.5  # of the files that were listed, deleted without --force


class SweepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to sweep; `max_modified_at` in microseconds since 1970, None: the mark's beginning less `grace`.

    `is_exact` None: as long as there are not too many live files.
    """

    max_modified_at: int | None = None
    grace: timedelta = GRACE
    is_exact: bool | None = None
    expected_files: int = 1_000_000
    fpp: float = 0.00001
    allowed_fpp: float = 0.0001
    only_named: bool = False
    expires_snapshots: bool = False  # heads list what is needed alone; older commits need the snapshot they name
    expires_on: str = ""  # the branch on which metadata is rewritten before it is merged
    unreferenced_age: timedelta | None = None  # contents that nobody has held for so long are swept, too
    allowed_locations: tuple[str, ...] = ()
    max_files: int = MAX_FILES
    max_share: float = MAX_SHARE
    is_forced: bool = False
    is_deferred: bool = False
    is_dry_run: bool = False
    listers: int = LISTERS


class Swept(NamedTuple):
    """What a sweep found and did; `stopped` says why it deleted nothing or not all."""

    record: LiveSetRecord
    expansion: Expansion
    bases: Bases
    verdicts: list[Verdict]
    outcome: Outcome | None
    stopped: str
    rewritten: Rewritten = Rewritten([], [], {})


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


class Hooks(NamedTuple):
    """What is done with what was found: `explain` before anything is deleted, `report` at the end.

    Only bases in `shards` are listed; as long as others are left, nothing is deleted.  `engine` expands and lists;
    without one, threads of this process do.
    """

    explain: Callable[[Swept], None] = lambda swept: None
    report: Callable[[Swept], None] = lambda swept: None
    shards: Sequence[Shard] = WHOLE
    engine: Engine | None = None


def sweep(
    sets: LiveSets,
    id: str,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    context: Context,
    hooks: Hooks = Hooks(),  # noqa: B008
    catalog: IcebergCatalog | None = None,
) -> Swept:
    """Sweep a live set; what goes wrong with one table is told in the result, all else is raised and can be resumed.

    What an earlier sweep found is used when it had the same settings.  A dry run leaves the live set as it was.
    `catalog` rewrites metadata when snapshots are to expire; BadRequest without it.
    """
    if settings.expires_snapshots and catalog is None:
        raise BadRequest("expire-snapshots: metadata can only be rewritten in our own store, without --uri.")
    limit = max_modified_at(settings, runs.get_live_set(sets, id))
    statuses = (runs.IDENTIFY_SUCCESS, runs.EXPIRY_IN_PROGRESS, runs.EXPIRY_FAILED)
    record = runs.take(sets, id, statuses, context)
    marks = fingerprint(settings, limit)
    if record.figures != marks or hooks.engine:  # which knows what is live for what it lists itself
        sets.forget_candidates(record.number)
    started = record.expiry_started_at or context.now()
    running = {"status": runs.EXPIRY_IN_PROGRESS, "expiry_started_at": started, "figures": marks, "error": ""}
    sets.change(record.number, expected={"owner": record.owner}, **running)
    try:
        with Heartbeat(lambda: runs.renew(sets, record, context)) as heartbeat:
            swept = _sweep(sets, record, source, stores, settings, limit, context, hooks, heartbeat, catalog)
            swept = swept._replace(record=_as_it_will_be(sets, swept, settings, context))
            hooks.report(swept)
        if settings.is_dry_run:
            sets.forget_candidates(record.number)
            sets.forget_bases(record.number)
    except BaseException as error:
        runs.fail(sets, record, runs.EXPIRY_FAILED, error)
        raise
    end = swept.record._asdict()
    runs.release(sets, record, **{name: end[name] for name in ("status", "error", "expired_at", *running)})
    return swept


def fingerprint(settings: SweepSettings, limit: int) -> str:
    """What decides on candidates: two sweeps for which this is equal find the same."""
    decisive = msgspec.structs.replace(
        settings, max_modified_at=limit, grace=GRACE, max_files=0, max_share=0, is_forced=False, listers=0
    )
    return msgspec.json.encode(decisive).decode()


def read_settings(record: LiveSetRecord) -> SweepSettings:
    """Those settings of the last sweep of a live set that decided on candidates; the defaults when there was none."""
    return msgspec.json.decode(record.figures, type=SweepSettings)


def check_filter(settings: SweepSettings) -> None:
    """BadRequest when no Bloom filter can be made of these settings."""
    check_rates(settings.expected_files, settings.fpp, settings.allowed_fpp)


def _as_it_will_be(sets: LiveSets, swept: Swept, settings: SweepSettings, context: Context) -> LiveSetRecord:
    record = runs.get_live_set(sets, swept.record.id)
    if settings.is_dry_run:
        return swept.record._replace(figures="{}")  # its candidates are forgotten, whatever found them
    unlisted = [f"{verdict.base}: {verdict.error}" for verdict in swept.verdicts if verdict.error]
    why = [swept.stopped] if swept.stopped else unlisted
    broken = [f"{row.content_id}: {row.location}: {row.why}" for row in swept.expansion.broken.values()]
    broken += [f"{row.table} on {row.branch}: {row.why}" for row in swept.rewritten.untouched if row.is_fault]
    status = runs.EXPIRY_FAILED if why else runs.EXPIRY_SUCCESS
    return record._replace(status=status, expired_at=context.now(), error="\n".join((why or broken)[:100]))


def _sweep(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    limit: int,
    context: Context,
    hooks: Hooks,
    heartbeat: Heartbeat,
    catalog: IcebergCatalog | None,
) -> Swept:
    rewritten = Rewritten([], [], {})
    if settings.expires_snapshots and catalog:
        rewritten = rewrite(sets, record, source, stores, settings, limit, context, catalog)
        heartbeat.check()
    heads = _look(sets, record, source) if settings.expires_snapshots else None
    planned = rewritten.planned if settings.is_dry_run else {}
    live, expansion = expand_live(sets, record, source, stores, settings, context, heads, planned, hooks.engine)
    known = known_bases(sets, record, source, stores, settings, expansion, context)
    bases = choose_bases(stores, Bounds(stores, settings.allowed_locations), expansion, known)
    sets.add_bases(record.number, (BaseRecord(content, base) for base, of in bases.owners.items() for content in of))
    earlier = read_verdicts(sets, record.number)
    done = {verdict.base for verdict in earlier}
    judge = Judge(stores, live, Blocked(stores, expansion, known), Limits(limit, record.created_at))
    finder = Sweep(stores, sets, record.number, judge, bases, settings.listers, context.progress, hooks.engine)
    heartbeat.check()
    todo = [base for base in bases.listed if base not in done]
    mine = [base for base in todo if any(shard.holds(base) for shard in hooks.shards)]
    verdicts = earlier + finder.find(mine)
    stopped = find_too_many(verdicts, settings) if len(mine) == len(todo) else _describe_left(len(todo) - len(mine))
    swept = Swept(record, expansion, bases, verdicts, None, stopped, rewritten)
    hooks.explain(swept)
    heartbeat.check()
    if swept.stopped or settings.is_dry_run or settings.is_deferred:
        return swept
    outcome = Deletion(
        stores,
        sets,
        record.number,
        # What an earlier run recorded may have become live before these heads were read.
        make_recheck(sets, record, source, stores, settings, None if record.expiry_started_at else heads),
        judge=judge.judge_again,
        looks_again=bool(record.expiry_started_at),
        before_batch=heartbeat.check,
        progress=context.progress,
    ).run()
    return swept._replace(outcome=outcome, stopped=describe_broken(outcome.broken))


def known_bases(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    expansion: Expansion,
    context: Context,
) -> list[Known]:
    """Where files lie of contents that are not live, and where earlier sweeps saw those of the others."""
    dropped: dict[str, Dropped] = {}
    if settings.unreferenced_age is not None:
        held_since = from_micros(record.created_at) - settings.unreferenced_age
        dropped = find_unreferenced(source, runs.pinned(sets, record), held_since, context.progress)
    wanted = expansion.locations.keys() | expansion.broken.keys() | dropped.keys()
    remembered = [base for base in _remember(sets, record) if base.content_id in wanted]
    return remembered + [Known(*found) for found in locate(stores, dropped)]


def _remember(sets: LiveSets, record: LiveSetRecord) -> list[Known]:
    """Bases of this live set and of others of its catalog; a clone of it elsewhere has contents of the same ids."""
    source = runs.get_settings(record).source
    numbers: dict[bool, list[int]] = {True: [], False: []}
    for each in sets.list_live_sets():
        if runs.get_settings(each).source == source:
            # With allowed locations these may hold what was never a table's own.
            numbers[not read_settings(each).allowed_locations].append(each.number)
    return [Known(*base, is_own) for is_own, of in numbers.items() for base in sets.list_known_bases(of)]


def known_of(sets: LiveSets, record: LiveSetRecord) -> list[Known]:
    """The bases of a live set, for what is broken."""
    return [Known(*base) for base in sets.list_bases(record.number)]


def rewrite(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    limit: int,
    context: Context,
    catalog: IcebergCatalog,
) -> Rewritten:
    """Rewrite metadata at the heads of branches, so that it lists only what is needed, or say what would go."""
    heads = _look(sets, record, source)
    named = name_snapshots({*_marked(sets, record), *heads.since}, stores)
    times = Times(limit // 1000, context.now() // 1000)
    on, is_dry_run = settings.expires_on, settings.is_dry_run
    rewriter = Rewriter(catalog, source, stores, named, times, on=on, is_dry_run=is_dry_run, progress=context.progress)
    return rewriter.rewrite(heads.branches)


def _look(sets: LiveSets, record: LiveSetRecord, source: Source) -> Heads:
    return look(source, runs.pinned(sets, record), runs.get_settings(record).policies.of)


def _marked(sets: LiveSets, record: LiveSetRecord) -> Iterator[Version]:
    for row in sets.list_versions(record.number):
        yield Version(row.content_id, bool(row.is_table), row.metadata_location, row.snapshot_id)


def _wanted(marked: Iterable[Version], heads: Heads | None, planned: Mapping[str, frozenset[int]]) -> Iterator[Wanted]:
    return list_wanted(marked, heads, planned) if heads else (Wanted(*version) for version in marked)


def expand_live(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    context: Context,
    heads: Heads | None = None,
    planned: Mapping[str, frozenset[int]] = {},
    engine: Engine | None = None,
) -> tuple[LivePlaces, Expansion]:
    """The live files of a live set, none if an engine has them; a filter that is too small is made anew, larger."""
    expected, is_exact = settings.expected_files, settings.is_exact
    if settings.expires_snapshots and heads is None:
        heads = _look(sets, record, source)
    if engine:
        wanted = _wanted(_marked(sets, record), heads, planned)
        expansion = engine.expand(wanted, only_named=settings.only_named, progress=context.progress)
        _break_heads(sets, record, source, expansion, engine.find_lost)
        return Exact(), expansion
    while True:
        live: LivePlaces = (
            Exact(EXACT_FILES if is_exact is None else None)
            if is_exact is not False
            else Bloom(expected, settings.fpp, settings.allowed_fpp)
        )
        expander = Expander(stores, live, only_named=settings.only_named, progress=context.progress)
        try:
            expansion = expander.expand(_wanted(_marked(sets, record), heads, planned))
        except Overfull:
            expected = 2 * (expected if is_exact is False else max(expected, EXACT_FILES))
            is_exact = False
            continue
        _break_heads(sets, record, source, expansion, partial(find_lost, stores))
        return live, expansion


def _break_heads(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    expansion: Expansion,
    find: Callable[[Iterable[Wanted], Collection[str]], list[Broken]],
) -> None:
    """What is gone was collected by an earlier run, unless a head needs it: then its table is broken."""
    if not expansion.missing:
        return
    hashes = dict.fromkeys(reference.hash for reference in sets.list_references(record.number))
    concerned = frozenset[str]().union(*expansion.missing.values())
    shown = (put.version for hash in hashes for put in _visible(source, CommitHash(hash)))
    heads = {version for version in shown if version.content_id in concerned}
    for lost in find((Wanted(*version) for version in heads), expansion.missing):
        expansion.note(lost)


def _visible(source: Source, hash: CommitHash) -> Iterator[Put]:
    try:
        yield from source.visible(hash)
    except ReferenceNotFound:  # its reference was deleted since the mark, and the commit purged
        return


def make_recheck(
    sets: LiveSets,
    record: LiveSetRecord,
    source: Source,
    stores: Stores,
    settings: SweepSettings,
    heads: Heads | None = None,
) -> Recheck:
    """What looks at the references again, from where the mark pinned them, or from the later `heads`."""
    policies = runs.get_settings(record).policies
    pinned = heads.pinned if heads else runs.pinned(sets, record)
    needs_all = settings.expires_snapshots
    return Recheck(
        source,
        stores,
        pinned,
        policies.of,
        only_named=settings.only_named,
        heads_need_all=needs_all,
        known=known_of(sets, record),
    )


def find_too_many(verdicts: Sequence[Verdict], settings: SweepSettings) -> str:
    """Why so many files are not deleted without force; empty when they are."""
    dead, listed = count_candidates(verdicts)
    if settings.is_forced or dead <= min(settings.max_files, int(settings.max_share * listed)):
        return ""
    return (
        f"{dead:,} of {listed:,} files would be deleted, more than --max-deletions {settings.max_files:,} or "
        f"--max-deletion-share {settings.max_share}: look at the report, then use --force."
    )


def _describe_left(count: int) -> str:
    return f"{count:,} folders, of other shards, are still to be listed."


def describe_broken(broken: Iterable[Broken]) -> str:
    """Why not all was deleted; empty when it was."""
    first = next(iter(broken), None)
    if first is None:
        return ""
    what = f"{first.location}: {first.why}"
    return f"A reference moved to what cannot be read, so files that may be of that table stay: {what}"
