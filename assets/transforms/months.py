"""A month of flights: the unit that is delivered, loaded, checked and published.

Months are local to the airports of departure, as in the deliveries; knows no time zone.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass

from nessie_ops.errors import BadRequest

FIRST, LAST = "2013-01", "2013-12"  # what the packaged deliveries cover

_KEY = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Month:
    """A calendar month, such as 2013-01."""

    year: int
    month: int

    @classmethod
    def parse(cls, text: str) -> Month:
        """The month `text` names as YYYY-MM; BadRequest when it names none or one outside the deliveries."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise BadRequest(f"month: '{text[:20]}' is not a month; write it as YYYY-MM, such as {FIRST}.")
        if not FIRST <= text <= LAST:
            raise BadRequest(f"month: {text} is not delivered; choose one from {FIRST} to {LAST}.")
        return cls(int(match[1]), int(match[2]))

    @property
    def last_day(self) -> int:
        """28 to 31."""
        return monthrange(self.year, self.month)[1]

    @property
    def where(self) -> str:
        """The SQL predicate that selects this month's partition of any table partitioned by year and month."""
        return f"year = {self.year} AND month = {self.month}"

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"
