"""Cutoff policies as nessie-gc's users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.gc.policies import Bound, Policies, split_options

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("NONE", None),
        ("none", None),
        ("10", 10),
        ("+3", 3),
        ("0", 1),
        ("-5", 1),
        ("P1D", NOW - timedelta(days=1)),
        ("pt1h30m", NOW - timedelta(minutes=90)),
        ("2026-02-01T00:00:00Z", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T01:00:00+01:00[Europe/Paris]", datetime(2026, 2, 1, tzinfo=UTC)),
        ("P99999999D", None),
    ],
)
def test_every_form_of_a_policy(text: str, bound: Bound) -> None:
    assert Policies(NOW, text).validated().of("main") == bound


@pytest.mark.parametrize("text", ["", "ten", "P1W", "P", "PT", "99999999999", "2147483648", "2026-13-01T00:00:00Z"])
def test_what_is_no_policy_is_named(text: str) -> None:
    with pytest.raises(BadRequest, match="default-cutoff"):
        Policies(NOW, text).validated()
    with pytest.raises(BadRequest, match=r"^cutoff"):
        Policies(NOW, "NONE", (("main", text),)).validated()


def test_a_pattern_must_match_the_whole_name() -> None:
    """`abc|zzz` is neither the beginning of abc-1 nor the end of x-zzz."""
    policies = Policies(NOW, "NONE", (("abc|zzz", "5"),))
    assert [policies.of(name) for name in ("abc", "zzz", "abc-1", "x-zzz")] == [5, 5, None, None]


def test_the_first_pattern_counts() -> None:
    policies = Policies(NOW, "1", (("dev/.*", "2"), (".*", "3"), ("main", "4")))
    assert [policies.of(name) for name in ("dev/a", "main")] == [2, 3]


def test_options_are_divided_at_commas_behind_policies() -> None:
    given = ["main=NONE,dev/.*=P7D", "x{1,2}=3", "a=b=2026-01-01T00:00:00Z"]
    assert split_options(given, "cutoff") == [
        ("main", "NONE"),
        ("dev/.*", "P7D"),
        ("x{1,2}", "3"),
        ("a=b", "2026-01-01T00:00:00Z"),
    ]


@pytest.mark.parametrize("text", ["main", "main=", "=NONE", "main=NONE,dev", "main=P1W"])
def test_options_without_a_policy_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="cutoff: "):
        split_options([text], "cutoff")


def test_a_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"'\(' is not a regular expression"):
        Policies(NOW, "NONE", (("(", "1"),)).validated()
