"""Identifiers: opaque text on the wire, fixed-size bytes in the store.

Commit: SHA-256, 32 bytes, 64 lower-case hex digits.  Content: UUID, 16 bytes.
"""

from __future__ import annotations

import re
from typing import NewType
from uuid import UUID

from nessie_ops.errors import BadRequest

CommitHash = NewType("CommitHash", str)  # 64 lower-case hex digits
ContentId = NewType("ContentId", str)  # UUID text

NO_ANCESTOR = CommitHash("2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d")
"""The hash of "no commit": SHA-256 of the word "empty", as Nessie's clients know it."""

_HASH = re.compile(r"[0-9a-fA-F]{8,64}")


def parse_hash(text: str, field: str = "hash") -> CommitHash:
    """`text` as a commit hash, lower-cased; BadRequest naming `field` when it cannot be one."""
    if not _HASH.fullmatch(text):
        raise BadRequest(f"{field}: '{text[:80]}' is not a commit hash (8 to 64 hex digits).")
    return CommitHash(text.lower())


def parse_content_id(text: str) -> ContentId:
    """`text` as a content id in canonical form; BadRequest when it is not a UUID."""
    try:
        return ContentId(str(UUID(text)))
    except ValueError:
        raise BadRequest(f"Invalid UUID string: {text[:80]}") from None
