"""What main was given, as the properties of its commits say: the catalog knows it whoever merged, Dagster need not.

Looks at the newest commits of main's own line.  Does not know what the tables hold now.
"""

from __future__ import annotations

from collections.abc import Iterator

from assets.said import ASSETS, PARTITION
from assets.transforms.tables import TABLES
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, LogEntry

MAX_COMMITS = 10_000  # of main looked through
_PAGE = 250


def walk(client: NessieClient, head: CommitHash, *, with_operations: bool = False) -> Iterator[LogEntry]:
    """The commits on the line from `head`, newest first, at most MAX_COMMITS."""
    at, seen = head, 0
    while seen < MAX_COMMITS:
        page = client.list_log(at, limit=_PAGE, with_operations=with_operations)
        new = page[1:] if seen else page
        yield from new
        if not new or len(page) < _PAGE:
            return
        seen += len(new)
        at = page[-1].commit_meta.hash


def list_months(client: NessieClient, head: CommitHash) -> set[str]:
    """The months of which all monthly tables were published, by a run or by changes, also those undone since."""
    wanted = {table.name for table in TABLES.values() if table.monthly}
    missing: dict[str, set[str]] = {}
    for entry in walk(client, head):
        properties = entry.commit_meta.all_properties
        for month in properties.get(PARTITION, ()):
            missing.setdefault(month, set(wanted)).difference_update(properties.get(ASSETS, ()))
    return {month for month, tables in missing.items() if not tables}
