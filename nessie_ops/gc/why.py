"""Why one file is kept or deleted: the verdict that a sweep has for it, and who holds it or held it last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from nessie_ops.gc import expire
from nessie_ops.gc.bases import Bases, Blocked, Bounds, choose_bases
from nessie_ops.gc.explain import Reason, Tracer, decode, reason_of
from nessie_ops.gc.history import list_held
from nessie_ops.gc.identify import Context
from nessie_ops.gc.places import NotAPlace, is_within
from nessie_ops.gc.report import format_time
from nessie_ops.gc.source import Source, Version
from nessie_ops.gc.storage import ListedFile, StorageError, Stores
from nessie_ops.gc.sweep import Judge, Limits
from nessie_ops.store.livesets import FileRecord, LiveSetRecord, LiveSets, VersionRecord

TEXTS = {
    "live": "kept: a live version needs it",
    "young": "kept: it was changed too short a time before the mark; a commit that is still to come may name it",
    "broken": "kept: it lies in a folder of a table that cannot be read",
    "unclear": "kept: its name has dots as path elements, so readers may mean another file",
    "not listed": "kept: it lies outside the folders that are listed",
    "dead": "to be deleted: no live version needs it",
    "missing": "there is no such file, and no live version needs it",
    "deleted": "deleted by this run",
    "gone": "found dead, and gone before it was deleted",
    "failed": "dead, but its deletion failed",
    "kept": "found dead, then kept",
}


class Answer(msgspec.Struct, rename="camel"):
    """`fate` is a key of `TEXTS`; `reason` says who holds a live file, or held a dead one last."""

    file: str
    fate: str
    text: str
    live_set: str
    reason: Reason | None = None
    detail: str = ""
    size_bytes: int | None = None
    modified: str | None = None  # ISO-8601, UTC


class Asked(NamedTuple):
    """Where the answer comes from."""

    sets: LiveSets
    record: LiveSetRecord
    source: Source
    stores: Stores
    settings: expire.SweepSettings
    context: Context


def why(asked: Asked, location: str) -> Answer:
    """The answer for a file of any spelling; NotAPlace."""
    place = asked.stores.physical(location)
    recorded = _recorded(asked, location)
    if recorded and recorded.state not in ("pending", "failed"):
        known = decode(recorded.reason) or _last_holder(asked, place)
        return _answer(asked, recorded.location, recorded.state, known, recorded.error, recorded)
    live, expansion = expire.expand_live(
        asked.sets, asked.record, asked.source, asked.stores, asked.settings, asked.context
    )
    if place in live:
        return _answer(asked, location, "live", _holder(asked, place), "", _stat(asked, location))
    places = expire.known_bases(
        asked.sets, asked.record, asked.source, asked.stores, asked.settings, expansion, asked.context
    )
    bounds = Bounds(asked.stores, asked.settings.allowed_locations)
    bases = choose_bases(asked.stores, bounds, expansion, places)
    file = _stat(asked, location)
    reason = decode(recorded.reason) if recorded else None
    if file is None:
        return _answer(asked, location, "missing", reason or _last_holder(asked, place), "", None)
    limit = expire.max_modified_at(msgspec.structs.replace(asked.settings, is_forced=True), asked.record)
    judge = Judge(asked.stores, live, Blocked(asked.stores, expansion, places), Limits(limit, asked.record.created_at))
    fate = judge.judge(file)
    if fate == "dead" and not any(is_within(place, asked.stores.physical(base)) for base in bases.listed):
        return _answer(asked, location, "not listed", _last_holder(asked, place), _refusal(asked, place, bases), file)
    return _answer(asked, location, fate, reason or _last_holder(asked, place), "", file)


def _recorded(asked: Asked, location: str) -> FileRecord | None:
    spellings = (location, asked.stores.physical(location), asked.stores.of(location).base(location))
    found = (asked.sets.get_file(asked.record.number, name) for name in dict.fromkeys(spellings))
    return next(filter(None, found), None)


def _stat(asked: Asked, location: str) -> ListedFile | None:
    try:
        return asked.stores.of(location).stat(location)
    except StorageError:
        return None


def _holder(asked: Asked, place: str) -> Reason | None:
    """The live version that needs a file; those whose metadata lies nearby are asked first."""
    rows = sorted(asked.sets.list_versions(asked.record.number), key=lambda row: not _is_near(asked, row, place))
    tracer = Tracer(asked.stores, only_named=asked.settings.only_named, progress=asked.context.progress)
    for index, found in tracer.trace(Version(row[0], bool(row[1]), row[2], row[3]) for row in rows):
        if found == place:
            row = rows[index]
            return Reason(row.key, row.commit, row.reference, metadata_location=row.metadata_location)
    return None


def _is_near(asked: Asked, row: VersionRecord, place: str) -> bool:
    try:
        folder = asked.stores.physical(row.metadata_location).rpartition("/")[0]
    except NotAPlace:
        return False
    return is_within(place, folder.removesuffix("/metadata"))


def _last_holder(asked: Asked, place: str) -> Reason:
    live = {Version(row[0], bool(row[1]), row[2], row[3]) for row in asked.sets.list_versions(asked.record.number)}
    also_live = asked.settings.expires_snapshots  # then they list snapshots that they do not need
    held = list_held(
        asked.source, wanted=lambda version: also_live or version not in live, progress=asked.context.progress
    )
    tracer = Tracer(asked.stores, only_named=asked.settings.only_named, progress=asked.context.progress)
    for index, found in tracer.trace(one.version for one in held):
        if found == place:
            return reason_of(held[index])
    return Reason(is_sure=not tracer.unread)


def _refusal(asked: Asked, place: str, bases: Bases) -> str:
    """Which location of a table holds the file, and why it is not listed."""
    for location, why_not in bases.refused.items():
        try:
            if is_within(place, asked.stores.physical(location)):
                return f"{location} {why_not}"
        except NotAPlace:
            continue
    return ""


def _answer(
    asked: Asked, file: str, fate: str, reason: Reason | None, detail: str, found: ListedFile | FileRecord | None
) -> Answer:
    return Answer(
        file,
        fate,
        TEXTS[fate],
        asked.record.id,
        reason,
        detail,
        found.size_bytes if found else None,
        format_time(found.modified_at) if found else None,
    )


def describe(answer: Answer) -> Iterable[str]:
    """The answer in lines for a person."""
    yield f"{answer.file}: {answer.text}"
    if answer.detail:
        yield f"  {answer.detail}"
    if answer.reason and answer.fate == "live":
        yield f"  held by {answer.reason}"
    elif answer.reason:
        yield f"  last held by {answer.reason}" if answer.reason.commit else f"  {answer.reason}"
