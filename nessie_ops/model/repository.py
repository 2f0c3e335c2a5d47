"""Configuration of the repository itself: how long its garbage collection keeps what no head needs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model.references import parse_time

MAX_POLICIES = 1000  # patterns of one configuration: each is tried on each reference
MAX_TEXT = 1000  # characters of a pattern or policy

Cutoff = int | timedelta | datetime | None
"""What stays reachable: so many commits, those younger than this, those since then; None: all."""

_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?", re.I)

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]


class ReferenceCutoffPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """The cutoff of the references whose whole name a regular expression matches."""

    reference_name_pattern: Text
    policy: Text


class GarbageCollectorConfig(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    tag="GARBAGE_COLLECTOR",
    tag_field="type",
):
    """Cutoff policies are texts as `parse_cutoff` reads them; the first pattern that matches counts."""

    default_cutoff_policy: Text | None = None
    per_ref_cutoff_policies: Annotated[tuple[ReferenceCutoffPolicy, ...], msgspec.Meta(max_length=MAX_POLICIES)] = ()
    new_files_grace_period: Text | None = None  # ISO-8601 duration
    expected_file_count_per_content: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None

    def validated(self) -> GarbageCollectorConfig:
        """This configuration, if all its texts can be read; else BadRequest names the field."""
        if self.default_cutoff_policy is not None:
            parse_cutoff(self.default_cutoff_policy, "defaultCutoffPolicy")
        for n, row in enumerate(self.per_ref_cutoff_policies):
            field = f"perRefCutoffPolicies[{n}]"
            parse_cutoff(row.policy, f"{field}.policy")
            try:
                re.compile(row.reference_name_pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise BadRequest(f"{field}.referenceNamePattern: not a regular expression: {error}.") from None
        if self.new_files_grace_period is not None:
            parse_duration(self.new_files_grace_period, "newFilesGracePeriod")
        return self


RepositoryConfig = GarbageCollectorConfig
CONFIG_TYPES = ("GARBAGE_COLLECTOR",)


def parse_cutoff(text: str, field: str) -> Cutoff:
    """`NONE`, a number of commits, an ISO-8601 duration or an ISO-8601 instant; BadRequest names `field`."""
    if text.upper() == "NONE":
        return None
    if text.isascii() and text.isdecimal():
        count = int(text) if len(text) <= 10 else 0
        if not 0 < count < 2**31:
            raise BadRequest(f"{field}: '{text[:80]}' is not a number of commits from 1 to {2**31 - 1}.")
        return count
    if _DURATION.fullmatch(text):
        return parse_duration(text, field)
    try:
        return parse_time(text, field)
    except BadRequest:
        raise BadRequest(
            f"{field}: '{text[:80]}' is no cutoff policy; give NONE, a number of commits, a duration such as P30D, "
            "or an instant such as 2026-01-31T00:00:00Z."
        ) from None


def parse_duration(text: str, field: str) -> timedelta:
    """An ISO-8601 duration in days, hours, minutes and seconds; BadRequest names `field`."""
    match = _DURATION.fullmatch(text)
    if not match or not any(match.groups()):
        raise BadRequest(f"{field}: '{text[:80]}' is not a duration such as P30D or PT1H30M.")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise BadRequest(f"{field}: '{text[:80]}' is longer than 999999999 days.") from None
