"""`nessie-ops gc mark-live`: find what is live."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import typer

from nessie_ops.cli.gc.groups import command
from nessie_ops.cli.gc.options import AsJson, Database, Marking, Origin, TimeZone
from nessie_ops.cli.gc.parts import Opened, make_context, open_sets, open_source, resumable, usage, warn
from nessie_ops.cli.gc.show import format_duration, parse_zone, to_json
from nessie_ops.cli.output import print_json
from nessie_ops.errors import BadRequest
from nessie_ops.gc import identify as runs
from nessie_ops.gc.ageing import age_out
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies, from_config, split_options
from nessie_ops.model import parse_time
from nessie_ops.model.repository import parse_duration
from nessie_ops.store.livesets import LiveSetRecord, LiveSets

_ZONE_ID = re.compile(r"\[[A-Za-z0-9_+/-]+\]$")
OPEN = (runs.IDENTIFY_IN_PROGRESS, runs.IDENTIFY_FAILED)


@command
def mark_live(
    marking: Marking, origin: Origin, database: Database, time_zone: TimeZone = "", as_json: AsJson = False
) -> None:
    """Find the live versions of all tables and views, and record them as a live set.  Deletes nothing."""
    parse_zone(time_zone)
    context = make_context()
    with open_sets(database) as sets:
        record = mark_or_resume(sets, origin, marking, context)
    if as_json:
        print_json(to_json(record))
    else:
        typer.secho(describe(record), bold=True, fg="green")


def mark_or_resume(
    sets: LiveSets, origin: Origin, marking: Marking, context: Context, *, forgets_old: bool = True
) -> LiveSetRecord:
    """A live set that is complete: a new one, or the one that --resume names."""
    policies = read_options(marking, context)
    keep = _duration(marking.keep_live_sets, "--keep-live-sets")
    id_file = _prepare_file(marking.write_live_set_id_to)
    marked = ""
    if marking.resume:
        marked = runs.get_settings(runs.get_live_set(sets, marking.resume)).source
    with open_source(origin, marked) as opened:
        for old in age_out(sets, keep, context) if forgets_old else ():
            warn(f"the live set {old} is older than --keep-live-sets, and forgotten")
        return _mark(sets, opened, marking, policies, id_file, context)


def _mark(
    sets: LiveSets,
    opened: Opened,
    marking: Marking,
    policies: Policies | None,
    id_file: Path | None,
    context: Context,
) -> LiveSetRecord:
    id = marking.resume or str(uuid4())
    if not marking.resume:
        if policies is None:
            policies = _from_repository(opened, marking, context)
        runs.begin(sets, opened.source, id, MarkSettings(opened.name, policies), context)
    if id_file:
        id_file.write_text(id)  # before the walk, so that whoever has only the file can resume it
    record = runs.get_live_set(sets, id)
    if record.status not in OPEN:
        return record
    with resumable(f"`nessie-ops gc mark-live --resume {id}` goes on"):
        return runs.identify(sets, opened.source, id, context)


def read_options(marking: Marking, context: Context) -> Policies | None:
    """The policies of -c and -C; None when there are none, so that the repository's own count."""
    if not marking.default_cutoff and not marking.cutoff:
        return None
    with usage():
        rules = tuple(split_options(marking.cutoff or (), "cutoff"))
        return Policies(_ref_time(marking, context), marking.default_cutoff or "NONE", rules).validated()


def _from_repository(opened: Opened, marking: Marking, context: Context) -> Policies:
    ref_time = _ref_time(marking, context)
    if opened.config is None:
        return Policies(ref_time)
    warn("cutoffs are those of the repository's configuration")
    return from_config(opened.config, ref_time)


def _ref_time(marking: Marking, context: Context) -> datetime:
    with usage():
        text = _ZONE_ID.sub("", marking.cutoff_ref_time)
        return parse_time(text, "cutoff-ref-time") if text else context.clock()


def _duration(text: str, field: str) -> timedelta:
    with usage():
        return parse_duration(text, field)


def _prepare_file(name: str) -> Path | None:
    """An empty file, so that one that cannot be written is known before the work."""
    if not name:
        return None
    path = Path(name)
    try:
        path.write_text("")
    except OSError as error:
        raise BadRequest(f"write-live-set-id-to: {name}: {error.strerror}.") from None
    return path


def describe(record: LiveSetRecord) -> str:
    took = format_duration(record.identified_at - record.created_at)
    return (
        f"Finished Nessie-GC identify phase finished with status {record.status} after {took}, "
        f"live-content-set ID is {record.id}."
    )
