"""Format 1, where the way begins: the tables that version 0.1 created.  Only SQLite has databases of it."""

from __future__ import annotations

revision = "format_1"
down_revision = None
