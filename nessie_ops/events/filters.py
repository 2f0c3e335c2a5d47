"""Which moves of references a subscriber wants: by kind, and by a regular expression for the reference's name.

The expression is RE2's kind, matched in time linear in the name: a person's pattern cannot stop the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import cel

from nessie_ops.errors import BadRequest
from nessie_ops.model import EventKind, ReferenceMove
from nessie_ops.versioning.events import kind_of
from nessie_ops.versioning.reading import is_transaction

MAX_PATTERN = 500  # characters
_matches = cel.compile("name.matches(pattern)")


class Filter:
    """Accepts moves of one of `kinds` (none: all) whose reference's whole name fits `pattern`.

    An empty one fits all but the branches of transactions, which listings do not show either.
    """

    def __init__(self, kinds: Iterable[EventKind] = (), pattern: str = "") -> None:
        self._kinds = frozenset(kinds)
        self._pattern = check_pattern(pattern)

    def accepts(self, move: ReferenceMove) -> bool:
        if self._kinds and kind_of(move) not in self._kinds:
            return False
        return _fits(self._pattern, move.name) if self._pattern else not is_transaction(move.name)


def check_pattern(pattern: str, field: str = "references") -> str:
    """`pattern`, if it is a regular expression; else BadRequest."""
    if len(pattern) > MAX_PATTERN:
        raise BadRequest(f"{field}: a pattern has at most {MAX_PATTERN} characters, this one has {len(pattern)}.")
    if pattern:
        try:
            _fits(pattern, "")
        except RuntimeError:
            raise BadRequest(f"{field}: '{pattern[:80]}' is not a regular expression (RE2 syntax).") from None
    return pattern


@lru_cache(maxsize=1024)
def _fits(pattern: str, name: str) -> bool:
    return bool(_matches.execute({"name": name, "pattern": f"^(?:{pattern})$"}))
