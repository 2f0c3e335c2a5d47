"""Upgrades the database at a URL in place: all of it or, where the database can undo changes of tables, nothing."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from nessie_ops.errors import StoreFormatError, StoreUnavailable
from nessie_ops.store import dialects, schema
from nessie_ops.store.dialects import Verdict
from nessie_ops.store.forks import gate
from nessie_ops.store.schema import Upgrade


def upgrade_store(url: str, *, dry_run: bool = False) -> Upgrade:
    """What was done, or with `dry_run` would be.

    BadRequest (the URL; no catalog there), StoreFormatError (a newer format, or not ours), StoreUnavailable.
    """
    parsed, dialect = dialects.parse_url(url)
    engine = dialect.open_engine(parsed, create=False).execution_options(**{dialects.WRITE: True})
    try:
        with gate.transaction(), engine.begin() as connection, dialect.schema_lock(connection):
            return schema.plan_upgrade(connection) if dry_run else schema.upgrade(connection)
    except DBAPIError as error:
        if dialect.judge(error) is Verdict.CORRUPT:
            raise StoreFormatError(f"The store is not a catalog of nessie_ops: {error.orig}.") from error
        raise StoreUnavailable(f"The catalog's database did not answer: {error.orig}. Nothing was upgraded.") from error
    finally:
        engine.dispose()
