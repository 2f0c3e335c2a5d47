"""`nessie-ops gc why`: why a file is kept or deleted."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

import typer

from nessie_ops.cli.gc import marking as marks
from nessie_ops.cli.gc.groups import command
from nessie_ops.cli.gc.options import AsJson, Chosen, Database, Files, Marking, Origin, Sweeping
from nessie_ops.cli.gc.parts import Opened, choose, make_context, open_files, open_sets, open_source
from nessie_ops.cli.gc.sweeping import read_settings
from nessie_ops.cli.output import print_json
from nessie_ops.errors import BadRequest
from nessie_ops.gc import expire
from nessie_ops.gc import identify as runs
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.policies import Policies, from_config
from nessie_ops.gc.why import Answer, Asked, describe
from nessie_ops.gc.why import why as ask
from nessie_ops.store.livesets import LiveSets


@command
def why(
    file: Annotated[str, typer.Argument(help="Location of a file, such as s3://bucket/table/data/x.parquet.")],
    chosen: Chosen,
    marking: Marking,
    sweeping: Sweeping,
    files: Files,
    origin: Origin,
    database: Database,
    as_json: AsJson = False,
) -> None:
    """Say why a file is kept or deleted: by a live set (-l), or by a mark that is made for this and forgotten.

    A live file: which version, commit and reference holds it.  A dead one: which held it last.
    """
    context = make_context()
    answers: list[Answer] = []
    if chosen.live_set_id or chosen.read_live_set_id_from:
        id = choose(chosen)
        with open_sets(database) as sets, open_source(origin, _marked(sets, id)) as opened:
            answers.append(_ask(sets, id, opened, sweeping, files, context, file))
    else:
        sets = LiveSets.open("sqlite://")
        try:
            with open_source(origin) as opened:
                id = _mark(sets, opened, marking, context)
                answers.append(_ask(sets, id, opened, sweeping, files, context, file))
        finally:
            sets.close()
    if as_json:
        print_json(answers[0])
    else:
        typer.echo("\n".join(describe(answers[0])))


def _marked(sets: LiveSets, id: str) -> str:
    return runs.get_settings(runs.get_live_set(sets, id)).source


def _mark(sets: LiveSets, opened: Opened, marking: Marking, context: Context) -> str:
    policies = marks.read_options(marking, context)
    if policies is None:
        now = context.clock()
        policies = from_config(opened.config, now) if opened.config else Policies(now)
    id = str(uuid4())
    runs.begin(sets, opened.source, id, MarkSettings(opened.name, policies), context)
    runs.identify(sets, opened.source, id, context)
    return id


def _ask(
    sets: LiveSets, id: str, opened: Opened, sweeping: Sweeping, files: Files, context: Context, file: str
) -> Answer:
    record = runs.get_live_set(sets, id)
    if record.status in marks.OPEN:
        raise BadRequest(f"live-set-id: the mark of {id} is not complete; go on with it by `mark-live --resume`.")
    settings = expire.read_settings(record) if record.figures != "{}" else read_settings(sweeping, opened.config)
    try:
        return ask(Asked(sets, record, opened.source, open_files(files, opened), settings, context), file)
    except NotAPlace as error:
        raise BadRequest(f"file: {error}.") from None
