"""Creates the tables of a new store, and refuses one that another version wrote."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select

from nessie_ops.errors import StoreFormatError
from nessie_ops.store import tables

_TABLES = (tables.commit, tables.node, tables.content, tables.reference, tables.reference_log, tables.setting)


def prepare(connection: Connection) -> None:
    """Make the database ready inside the caller's writing transaction; StoreFormatError when it is not ours."""
    names = set(inspect(connection).get_table_names())
    if tables.setting.name not in names:
        if names & {"commit", "reference", "node"}:
            raise StoreFormatError("The database has tables of these names but is not a catalog of nessie_ops.")
        tables.metadata.create_all(connection, tables=list(_TABLES))
        connection.execute(tables.setting.insert(), {"name": "format", "value": str(tables.FORMAT)})
        return
    found = connection.execute(select(tables.setting.c.value).where(tables.setting.c.name == "format")).scalar()
    if found != str(tables.FORMAT):
        raise StoreFormatError(
            f"The store has format {found}, this version of nessie_ops reads format {tables.FORMAT}. "
            "Use the version of nessie_ops that wrote it, or a newer one."
        )
