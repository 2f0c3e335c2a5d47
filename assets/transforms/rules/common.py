"""SQL that the rules of several layers are made of."""

from __future__ import annotations

from collections.abc import Iterable

from assets.transforms.audits import Audit
from assets.transforms.months import Month
from assets.transforms.tables import Table


def of(table: Table, month: Month) -> str:
    """The table, restricted to the month where it has months."""
    return f"(SELECT * FROM {table.name} WHERE {month.where})" if table.monthly else table.name


def listed(names: Iterable[str]) -> str:
    """Names as SQL literals."""
    return ", ".join(f"'{name}'" for name in names)


def keys_unique(table: Table, month: Month, rows: str = "") -> Audit:
    """That the table's key names one row of `rows`, by default of the table."""
    key = ", ".join(table.key)
    # Every row of a repeated key, so that the sample shows in what they differ.
    bad = (
        f"SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY {key}) AS rows_of_key FROM {rows or of(table, month)}) "
        f"WHERE rows_of_key > 1 ORDER BY {key}"
    )
    return Audit(table, "keys_unique", f"({key}) names one row, exact duplicates aside.", bad, (table,))


def differences(expected: str, found: str) -> str:
    """The rows by which two queries differ, each said to be missing or unexpected."""
    return (
        f"SELECT 'missing' AS what, * FROM ({expected} EXCEPT ALL {found}) UNION ALL "
        f"SELECT 'unexpected' AS what, * FROM ({found} EXCEPT ALL {expected})"
    )
