"""The way from each format of the database to the next, as Alembic revisions; `upgrade` walks it.

A revision is named by the format that it makes.  The format of a database is the row `format` of the table
`setting` and nothing else, so Alembic's own table of versions is not used.  What a revision does is frozen:
it spells out its columns and does not read `tables`, which describes the newest format alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

_FOLDER = Path(__file__).parent


def list_steps(before: int) -> Sequence[Script]:
    """The revisions that lead from format `before` to the newest, in their order."""
    scripts = ScriptDirectory(str(_FOLDER))
    newest_first = scripts.iterate_revisions("head", _revision(before))
    return [script for script in reversed(list(newest_first)) if script.revision != _revision(before)]


def upgrade(connection: Connection, before: int) -> None:
    """Bring tables of format `before` to the newest, in the caller's transaction; the row `format` is the caller's."""
    with Operations.context(MigrationContext.configure(connection)):
        for step in list_steps(before):
            step.module.upgrade()


def _revision(format: int) -> str:
    return f"format_{format}"
