"""Configuration of the repository over HTTP, and how its policies are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.model import parse_cutoff, parse_duration
from tests.server.helpers import Api

FULL = {
    "type": "GARBAGE_COLLECTOR",
    "defaultCutoffPolicy": "P30D",
    "perRefCutoffPolicies": [
        {"referenceNamePattern": "main", "policy": "NONE"},
        {"referenceNamePattern": "run/.*", "policy": "2026-01-31T00:00:00Z"},
        {"referenceNamePattern": ".*", "policy": "100"},
    ],
    "newFilesGracePeriod": "PT3H",
    "expectedFileCountPerContent": 100,
}


def update(api: Api, status: int = 200, **fields: Any) -> Any:
    return api.post("config/repository", {"config": {"type": "GARBAGE_COLLECTOR", **fields}}, status)


def test_a_configuration_is_kept_and_told(api: Api) -> None:
    assert api.get("config/repository") == api.get("config/repository", type="GARBAGE_COLLECTOR") == {}
    assert api.post("config/repository", {"config": FULL}) == {"previous": None}
    assert api.get("config/repository", type=["GARBAGE_COLLECTOR", "GARBAGE_COLLECTOR"]) == {"configs": [FULL]}
    nulls = {"defaultCutoffPolicy": "10", "perRefCutoffPolicies": None, "newFilesGracePeriod": None, "what": 1}
    assert update(api, **nulls) == {"previous": FULL}
    assert api.get("config/repository") == {"configs": [{"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "10"}]}


def test_unknown_types_are_refused(api: Api) -> None:
    for types in ("X", ["GARBAGE_COLLECTOR", "X"], "garbage_collector"):
        assert "type" in api.get("config/repository", 400, type=types)["message"]
    for config in ({"type": "X"}, {}, {"type": None}, None, [], "x"):
        assert "config" in api.post("config/repository", {"config": config}, 400)["message"]
    assert api.post("config/repository", {}, 400)["errorCode"] == "BAD_REQUEST"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"defaultCutoffPolicy": "soon"}, "defaultCutoffPolicy"),
        ({"defaultCutoffPolicy": ""}, "defaultCutoffPolicy"),
        ({"defaultCutoffPolicy": 7}, "defaultCutoffPolicy"),
        ({"defaultCutoffPolicy": "9" * 2000}, "defaultCutoffPolicy"),
        ({"newFilesGracePeriod": "3h"}, "newFilesGracePeriod"),
        ({"newFilesGracePeriod": 3600}, "newFilesGracePeriod"),
        ({"expectedFileCountPerContent": -1}, "expectedFileCountPerContent"),
        ({"expectedFileCountPerContent": 1.5}, "expectedFileCountPerContent"),
        ({"expectedFileCountPerContent": 2**31}, "expectedFileCountPerContent"),
        ({"perRefCutoffPolicies": {}}, "perRefCutoffPolicies"),
        ({"perRefCutoffPolicies": [{"referenceNamePattern": "x"}]}, "policy"),
        ({"perRefCutoffPolicies": [{"policy": "1"}]}, "referenceNamePattern"),
        ({"perRefCutoffPolicies": [{"referenceNamePattern": "(", "policy": "1"}]}, "[0].referenceNamePattern"),
        ({"perRefCutoffPolicies": [{"referenceNamePattern": "x", "policy": "-1"}]}, "[0].policy"),
        ({"perRefCutoffPolicies": [{"referenceNamePattern": "x", "policy": "1"}] * 1001}, "perRefCutoffPolicies"),
    ],
)
def test_wrong_policies_are_named(api: Api, fields: dict[str, Any], named: str) -> None:
    assert named in update(api, 400, **fields)["message"]
    assert api.get("config/repository") == {}


@pytest.mark.parametrize(
    ("text", "cutoff"),
    [
        ("NONE", None),
        ("none", None),
        ("1", 1),
        ("2147483647", 2**31 - 1),
        ("P1D", timedelta(days=1)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("pt36h", timedelta(hours=36)),
        ("2021-04-07T14:42:25.5Z", datetime(2021, 4, 7, 14, 42, 25, 500_000, UTC)),
    ],
)
def test_cutoffs(text: str, cutoff: object) -> None:
    assert parse_cutoff(text, "x") == cutoff


@pytest.mark.parametrize(
    "text", ["", "0", "2147483648", "P", "PT", "P1DT", "P1Y", "-P1D", "1.5", "²", "x", "P999999999D1"]
)
def test_texts_that_are_no_cutoff(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^x: "):
        parse_cutoff(text, "x")
    with pytest.raises(BadRequest, match=r"^x: "):
        parse_duration(text, "x")


def test_a_duration_has_an_end() -> None:
    with pytest.raises(BadRequest, match="longer"):
        parse_duration("P999999999DT24H", "x")
