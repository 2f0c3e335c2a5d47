"""Format 2: a counter numbers the reference log, without gaps and in commit order; webhooks and their dead letters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "format_2"
down_revision = "format_1"


def upgrade() -> None:
    _number_the_log_by_a_counter()
    _add_webhooks()


def _number_the_log_by_a_counter() -> None:
    op.create_table(
        "counter",
        sa.Column("name", sa.Text, primary_key=True, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO counter (name, value) SELECT 'reference_log', coalesce(max(seq), 0) FROM reference_log")
    op.drop_index("reference_log_name", "reference_log")
    op.rename_table("reference_log", "reference_log_1")  # SQLite cannot take AUTOINCREMENT away from a table
    op.create_table(
        "reference_log",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("before", sa.LargeBinary),
        sa.Column("after", sa.LargeBinary),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO reference_log SELECT seq, name, type, action, before, after, at FROM reference_log_1")
    op.drop_table("reference_log_1")
    op.create_index("reference_log_name", "reference_log", ["name", "seq"])


def _add_webhooks() -> None:
    texts = {name: sa.Column(name, sa.Text, nullable=False) for name in ("url", "secret", "kinds", "pattern")}
    op.create_table(
        "subscriber",
        sa.Column("name", sa.Text, primary_key=True, nullable=False),
        *texts.values(),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("active", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("leased_until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dead_letter",
        sa.Column("subscriber", sa.Text, primary_key=True, nullable=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("retrying", sa.Integer, nullable=False),
    )
