"""Which assets and checks a change needs: what people select in Dagster's syntax, and all that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import dagster as dg

from assets.checks import all_rules
from assets.transforms.months import FIRST, Month
from assets.transforms.tables import NAMESPACES
from nessie_ops.errors import BadRequest


class Selected(NamedTuple):
    """Assets of tables, with all that is downstream of those named."""

    assets: frozenset[dg.AssetKey]

    @property
    def tables(self) -> tuple[str, ...]:
        """Their tables, by name."""
        return tuple(sorted(table_of(key) for key in self.assets))


def table_of(key: dg.AssetKey) -> str:
    """The table of an asset: silver/flights is silver.flights."""
    return ".".join(key.path)


def select(texts: Sequence[str]) -> Selected:
    """The tables that any of `texts` names, and their downstream; of none, all.  BadRequest quotes what names none."""
    graph = _graph()
    ours = dg.AssetSelection.groups(*NAMESPACES).resolve(graph)
    found: set[dg.AssetKey] = set(ours) if not texts else set()
    for text in texts:
        try:
            named = dg.AssetSelection.from_string(text).downstream().resolve(graph) & ours
        except dg.DagsterError as error:
            raise BadRequest(f"select: '{text[:80]}': {str(error)[:300]}") from error
        if not named:
            known = ", ".join(sorted(key.to_user_string() for key in ours))
            raise BadRequest(f"select: '{text[:80]}' names no table; there are {known}.")
        found |= named
    return Selected(frozenset(found))


def checks_of(tables: Iterable[str]) -> frozenset[dg.AssetCheckKey]:
    """The rules of these tables; other checks are about main."""
    wanted = set(tables)
    labels = {audit.label for audit in all_rules(Month.parse(FIRST)) if audit.table.name in wanted}
    return frozenset(key for key in _graph().asset_check_keys if f"{table_of(key.asset_key)}:{key.name}" in labels)


@cache
def _graph() -> dg.AssetGraph:
    from nessie_ops.definitions import defs

    return defs.resolve_asset_graph()


def is_blocking(table: str, name: str) -> bool:
    """Whether a check stops what is made of its table, as our definitions say; False for one they do not have."""
    key = dg.AssetCheckKey(dg.AssetKey(table.split(".")), name)
    graph = _graph()
    return key in graph.asset_check_keys and graph.get_check_spec(key).blocking
