"""Format 5: transactions over many tables, and what they have read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "format_5"
down_revision = "format_4"


def upgrade() -> None:
    text = sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    blob = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    digest = sa.LargeBinary(16).with_variant(mysql.BINARY(16), "mysql", "mariadb")
    for name in ("catalog_read", "catalog_transaction"):
        op.drop_table(name, if_exists=True)  # of an upgrade that was cut short, where it is no transaction
    op.create_table(
        "catalog_transaction",
        sa.Column("id", _name(64), primary_key=True, nullable=False),
        sa.Column("state", _name(20), nullable=False),
        sa.Column("target", _name(1000), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("document", text, nullable=False),
    )
    op.create_index("catalog_transaction_state", "catalog_transaction", ["state", "expires_at"])
    op.create_table(
        "catalog_read",
        sa.Column("transaction", _name(64), primary_key=True, nullable=False),
        sa.Column("digest", digest, primary_key=True, nullable=False),
        sa.Column("kind", sa.BigInteger, nullable=False),
        sa.Column("low", blob, nullable=False),
        sa.Column("high", blob, nullable=False),
    )


def _name(size: int) -> sa.types.TypeEngine[str]:
    return (
        sa.Text()
        .with_variant(sa.String(size, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(size, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
    )
