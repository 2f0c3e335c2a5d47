"""Creates the tables of a new store, and refuses one that another version wrote."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select

from nessie_ops.errors import StoreFormatError
from nessie_ops.store import tables


def is_ready(connection: Connection) -> bool:
    """Whether the tables are there; StoreFormatError for a database that is not ours, or of another format."""
    names = set(inspect(connection).get_table_names())
    if tables.setting.name not in names:
        if names & {"commit", "reference", "node"}:
            raise StoreFormatError("The database has tables of these names but is not a catalog of nessie_ops.")
        return False
    found = connection.execute(select(tables.setting.c.value).where(tables.setting.c.name == "format")).scalar()
    if found is None:
        return False  # somebody is creating it
    if found != str(tables.FORMAT):
        raise StoreFormatError(
            f"The store has format {found}, this version of nessie_ops reads format {tables.FORMAT}. "
            "Use the version of nessie_ops that wrote it, or a newer one."
        )
    return True


def create(connection: Connection) -> None:
    """Create the tables, and last the row that says so."""
    tables.metadata.create_all(connection, tables=tables.ALL)
    connection.execute(tables.counter.insert(), {"name": "reference_log", "value": 0})
    connection.execute(tables.setting.insert(), {"name": "format", "value": str(tables.FORMAT)})
