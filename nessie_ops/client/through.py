"""Commits that were learned of through a transaction's branch: what is read at them is read through that branch.

A server records what a transaction reads, and knows it by the branch that a request names.  A caller asks where a
branch is, and then reads at that commit; so a commit keeps the name that it was found under.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from nessie_ops.model import TRANSACTIONS, Branch, CommitHash, Detached, Tag

R = TypeVar("R", Branch, Tag, Branch | Tag, Branch | Tag | Detached)


class SeenHash(str):
    """A commit hash, and the branch that it was found through."""

    branch: str


def keep_name(found: R) -> R:
    """The reference; if it is a transaction's branch, its hash says so."""
    if isinstance(found, Detached) or not found.name.startswith(TRANSACTIONS):
        return found
    seen = SeenHash(found.hash)
    seen.branch = found.name
    return msgspec.structs.replace(found, hash=CommitHash(seen))


def split_name(spec: str) -> str:
    """The name of the reference in a specification that has one."""
    return re.split(r"[@~^*]", spec, maxsplit=1)[0]


def spec_of(at: CommitHash) -> str:
    """How a request names a commit: `@<hash>`, or `<branch>@<hash>`."""
    return f"{at.branch}@{at}" if isinstance(at, SeenHash) else f"@{at}"
