"""Shards: equal parts of a run's work by name, so that one part can be done, shown and done again by itself.

A name is in the same shard in every process and every run.  Knows not what is named.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Shard(NamedTuple):
    """The names that are part `number` of so many `parts`."""

    number: int = 0
    parts: int = 1

    def holds(self, name: str) -> bool:
        """Whether a name is in this part; every name is in one of them."""
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(digest) % self.parts == self.number


WHOLE = (Shard(),)  # one part that holds everything
