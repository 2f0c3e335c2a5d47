"""Format 4: merge requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "format_4"
down_revision = "format_3"


def upgrade() -> None:
    text = sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    op.drop_table("merge_request", if_exists=True)  # of an upgrade that was cut short, where it is no transaction
    op.create_table(
        "merge_request",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("source", _name(1000), nullable=False),
        sa.Column("source_hash", _name(64), nullable=False),
        sa.Column("target", _name(1000), nullable=False),
        sa.Column("state", _name(20), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("document", text, nullable=False),
    )
    op.create_index("merge_request_state", "merge_request", ["state", "number"])
    op.create_index("merge_request_source", "merge_request", ["source", "number"])


def _name(size: int) -> sa.types.TypeEngine[str]:
    return (
        sa.Text()
        .with_variant(sa.String(size, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(size, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
    )
