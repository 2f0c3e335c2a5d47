"""Format 3: the answers to requests that carry an Idempotency-Key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "format_3"
down_revision = "format_2"


def upgrade() -> None:
    blob = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    op.drop_table("idempotency_key", if_exists=True)  # of an upgrade that was cut short, where it is no transaction
    op.create_table(
        "idempotency_key",
        sa.Column("key", _fixed(16), primary_key=True, nullable=False),
        sa.Column("digest", _fixed(32), nullable=False),
        sa.Column("answer", blob, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("idempotency_key_expires_at", "idempotency_key", ["expires_at"])


def _fixed(size: int) -> sa.types.TypeEngine[bytes]:
    return sa.LargeBinary(size).with_variant(mysql.BINARY(size), "mysql", "mariadb")
