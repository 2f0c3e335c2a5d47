"""Creates the tables of a new store at the newest format, refuses those of another, and upgrades older ones."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, inspect, select, update

from nessie_ops.errors import BadRequest, StoreFormatError
from nessie_ops.store import migrations, tables


class Upgrade(NamedTuple):
    """From which format to which, and what each step is, in order; no step when there is nothing to do."""

    before: int
    after: int
    steps: tuple[str, ...]


def is_ready(connection: Connection) -> bool:
    """Whether the tables are there; StoreFormatError for a database that is not ours, or of another format."""
    found = get_format(connection)
    if found is None:
        return False  # a new database, or somebody is creating it
    if found < tables.FORMAT:
        raise StoreFormatError(
            f"The store has format {found}, this version of nessie_ops needs format {tables.FORMAT}: "
            "stop what uses the store, make a copy of it, and run `nessie-ops store upgrade`."
        )
    if found > tables.FORMAT:
        raise _is_newer(found)
    return True


def create(connection: Connection) -> None:
    """Create the tables, `setting` first, and last the row that says so.

    Where DDL is not part of a transaction, a creation that was cut short has `setting` without that row: it is
    taken up again by the next to come.
    """
    tables.setting.create(connection, checkfirst=True)
    tables.metadata.create_all(connection, tables=tables.ALL)
    connection.execute(tables.counter.insert(), {"name": "reference_log", "value": 0})
    connection.execute(tables.setting.insert(), {"name": "format", "value": str(tables.FORMAT)})


def plan_upgrade(connection: Connection) -> Upgrade:
    """What `upgrade` would do; StoreFormatError for a newer format, BadRequest where there is no store."""
    found = get_format(connection)
    if found is None:
        raise BadRequest("store: the database has no catalog to upgrade; its first use creates one.")
    if found > tables.FORMAT:
        raise _is_newer(found)
    steps = tuple(str(step.doc) for step in migrations.list_steps(found)) if found < tables.FORMAT else ()
    return Upgrade(found, tables.FORMAT, steps)


def upgrade(connection: Connection) -> Upgrade:
    """Bring the tables to the newest format inside the caller's writing transaction; what was done."""
    plan = plan_upgrade(connection)
    if plan.steps:
        migrations.upgrade(connection, plan.before)
        setting = tables.setting
        connection.execute(update(setting).where(setting.c.name == "format").values(value=str(plan.after)))
    return plan


def get_format(connection: Connection) -> int | None:
    """The format of the tables; None where there are none, or not yet all.  StoreFormatError: not ours."""
    names = set(inspect(connection).get_table_names())
    if tables.setting.name not in names:
        if names & {"commit", "reference", "node"}:
            raise StoreFormatError("The database has tables of these names but is not a catalog of nessie_ops.")
        return None
    found = connection.execute(select(tables.setting.c.value).where(tables.setting.c.name == "format")).scalar()
    try:
        return None if found is None else int(found)
    except ValueError:
        raise StoreFormatError(f"The store's format is '{found}', which is not a number.") from None


def _is_newer(found: int) -> StoreFormatError:
    return StoreFormatError(
        f"The store has format {found}, this version of nessie_ops reads format {tables.FORMAT}. "
        "Use the version of nessie_ops that wrote it, or a newer one."
    )
