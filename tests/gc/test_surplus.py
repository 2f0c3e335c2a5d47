"""Which snapshots, specs and schemas of a table nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.errors import BadRequest
from nessie_ops.gc.surplus import Surplus, Times, find_surplus

DAY = 86_400_000
NOW = 1000 * DAY
Json = dict[str, Any]


def table(snapshots: Sequence[Json], refs: Json | None = None, **more: Any) -> TableMetadata:
    """Snapshots 1, 2, … , each a day after its parent; the last one is current a day ago."""
    main = {"main": {"type": "branch", "snapshot-id": snapshots[-1]["snapshot-id"]}} if snapshots else {}
    found = {
        "snapshots": list(snapshots),
        "refs": main | (refs or {}),
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else None,
        "schemas": [{"schema-id": n} for n in range(3)],
        "current-schema-id": 2,
        "partition-specs": [{"spec-id": n} for n in range(3)],
        "default-spec-id": 2,
        "statistics": [],
        "partition-statistics": [],
        "properties": {},
    }
    return TableMetadata(found | more)


def chain(count: int, **more: Any) -> list[Json]:
    return [
        {
            "snapshot-id": n,
            "parent-snapshot-id": n - 1,
            "timestamp-ms": NOW - (count - n + 1) * DAY,
            "schema-id": 2,
            **more,
        }
        for n in range(1, count + 1)
    ]


def find(given: TableMetadata, *named: int, specs: set[int] | None = None, young_days: float = 0) -> Surplus:
    return find_surplus(given, set(named), Times(int(NOW - young_days * DAY), NOW), lambda snapshots: specs)


def test_named_and_current_snapshots_stay() -> None:
    found = find(table(chain(5)), 2, 77)
    assert (found.snapshots, found.kept) == ((1, 3, 4), {2, 5})
    assert found.updates()[0] == {"action": "remove-snapshots", "snapshot-ids": [1, 3, 4]}
    assert str(found) == "3 snapshots, 2 schemas"


def test_young_snapshots_stay() -> None:
    assert find(table(chain(5)), young_days=3.5).snapshots == (1, 2)


@pytest.mark.parametrize(
    ("refs", "properties", "gone"),
    [
        ({}, {"history.expire.min-snapshots-to-keep": "3"}, (1, 2)),
        ({}, {"history.expire.max-snapshot-age-ms": str(2 * DAY)}, (1, 2, 3)),
        ({"t": {"type": "tag", "snapshot-id": 2}}, {"history.expire.min-snapshots-to-keep": "1"}, (1, 3, 4)),
        ({"b": {"type": "branch", "snapshot-id": 2, "min-snapshots-to-keep": 2}}, {}, (3, 4)),
        ({"b": {"type": "branch", "snapshot-id": 3, "max-snapshot-age-ms": 4 * DAY}}, {}, (1, 4)),
        (
            {"main": {"type": "branch", "snapshot-id": 5, "min-snapshots-to-keep": 1}},
            {"history.expire.min-snapshots-to-keep": "5"},
            (1, 2, 3, 4),
        ),
    ],
)
def test_what_branches_tags_and_properties_retain(refs: Json, properties: Json, gone: tuple[int, ...]) -> None:
    assert find(table(chain(5), refs, properties=properties)).snapshots == gone


def test_a_property_that_is_no_number() -> None:
    with pytest.raises(BadRequest, match="max-snapshot-age-ms: '5 days'"):
        find(table(chain(2), properties={"history.expire.max-snapshot-age-ms": "5 days"}))


def test_specs_and_schemas() -> None:
    snapshots = chain(2)
    snapshots[1]["schema-id"] = 1
    found = find(table(snapshots), specs={1})
    assert (found.specs, found.schemas) == ((0,), (0,))
    assert find(table(snapshots), 1, 2, specs=None).specs == ()  # manifests do not say
    del snapshots[1]["schema-id"]
    assert find(table(snapshots)).schemas == ()  # may have any


def test_statistics_of_snapshots_that_went_before() -> None:
    files = [{"snapshot-id": 1}, {"snapshot-id": 2}, {"snapshot-id": 9}]
    found = find(table(chain(2), statistics=files), specs={0, 1, 2})
    assert found.statistics == (("statistics", 9),)  # those of snapshot 1 go with it


def test_an_empty_table_and_a_line_that_ends_in_itself() -> None:
    empty = table([], schemas=[{"schema-id": 2}], **{"partition-specs": [{"spec-id": 2}]})
    assert not find(empty)
    loop = chain(3)
    loop[0]["parent-snapshot-id"] = 3
    given = table(loop, properties={"history.expire.min-snapshots-to-keep": "9"})
    assert find(given).snapshots == ()


@given(st.integers(1, 8), st.sets(st.integers(1, 8)), st.sets(st.integers(1, 8)), st.integers(0, 9))
def test_nothing_that_is_needed_goes(count: int, named: set[int], tagged: set[int], at_least: int) -> None:
    refs = {f"t{n}": {"type": "tag", "snapshot-id": n} for n in tagged if n <= count}
    properties = {"history.expire.min-snapshots-to-keep": str(at_least)}
    found = find(table(chain(count), refs, properties=properties), *named)
    newest = set(range(count - max(at_least, 1) + 1, count + 1))
    assert found.kept == {n for n in range(1, count + 1) if n in named | tagged | newest}
    assert set(found.snapshots) == set(range(1, count + 1)) - found.kept
