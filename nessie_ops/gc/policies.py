"""Cutoff policies: how much of a reference's history stays live.

A policy is `NONE` (all), a number of commits, an ISO-8601 duration before the reference time, or an instant.
The first pattern that matches a reference's whole name counts.  Knows no references and no commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model import GarbageCollectorConfig
from nessie_ops.model.repository import Cutoff, parse_cutoff

Bound = int | datetime | None
"""What of one reference is live: so many commits from its head, those not older than this, or None: all."""

_COUNT = re.compile(r"[+-]?[0-9]{1,10}")
_ZONE_ID = re.compile(r"\[[A-Za-z0-9_+/-]+\]$")  # Java's zoned times may name the zone behind its offset


def parse_policy(text: str, field: str) -> Cutoff:
    """A policy as nessie-gc reads it: in any case, counts with a sign, where less than 1 keeps the head alone."""
    text = text.strip()
    if _COUNT.fullmatch(text):
        count = int(text)
        if not -(2**31) <= count < 2**31:
            raise BadRequest(f"{field}: '{text}' is not a number of commits below {2**31}.")
        return max(1, count)
    return parse_cutoff(_ZONE_ID.sub("", text.upper()), field)


def split_options(texts: Iterable[str], field: str) -> list[tuple[str, str]]:
    """The (pattern, policy) pairs of options `PATTERN=POLICY[,PATTERN=POLICY…]`, in order; BadRequest.

    A comma within a pattern (`x{1,2}=NONE`) does not divide: what lies before it has no policy yet.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        pending = ""
        for part in text.split(","):
            pending = f"{pending},{part}" if pending else part
            pattern, equals, policy = pending.rpartition("=")
            if equals and pattern and _is_policy(policy):
                pairs.append((pattern, policy))
                pending = ""
        if pending:
            raise BadRequest(f"{field}: '{pending[:80]}' is not PATTERN=POLICY, such as 'main=NONE' or 'dev/.*=P7D'.")
    return pairs


def _is_policy(text: str) -> bool:
    try:
        parse_policy(text, "")
    except BadRequest:
        return False
    return True


class Policies(msgspec.Struct, frozen=True):
    """The bound of every reference; `rules` are (pattern, policy as text), first match first."""

    ref_time: datetime
    default: str = "NONE"
    rules: tuple[tuple[str, str], ...] = ()

    def validated(self) -> Policies:
        """These policies, if all of them can be read; else BadRequest names what cannot."""
        self._bound(self.default, "default-cutoff")
        for pattern, policy in self.rules:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise BadRequest(f"cutoff: '{pattern[:80]}' is not a regular expression: {error}.") from None
            self._bound(policy, "cutoff")
        return self

    def of(self, reference: str) -> Bound:
        """The bound of the reference of this name."""
        for pattern, policy in self.rules:
            if re.fullmatch(pattern, reference):
                return self._bound(policy, "cutoff")
        return self._bound(self.default, "default-cutoff")

    def _bound(self, text: str, field: str) -> Bound:
        cutoff = parse_policy(text, field)
        if isinstance(cutoff, timedelta):
            try:
                return self.ref_time - cutoff
            except OverflowError:
                return None  # from before the calendar: all
        return cutoff


def from_config(config: GarbageCollectorConfig, ref_time: datetime) -> Policies:
    """The policies of the repository's own configuration."""
    rules = tuple((row.reference_name_pattern, row.policy) for row in config.per_ref_cutoff_policies)
    return Policies(ref_time, config.default_cutoff_policy or "NONE", rules)


def encode_bound(bound: Bound) -> str:
    """A bound as text, which is also a policy: NONE, a number, or an instant."""
    return "NONE" if bound is None else bound.isoformat() if isinstance(bound, datetime) else str(bound)


def decode_bound(text: str) -> Bound:
    """What `encode_bound` made; BadRequest."""
    bound = parse_policy(text, "bound")
    assert not isinstance(bound, timedelta)  # no duration is ever stored
    return bound
