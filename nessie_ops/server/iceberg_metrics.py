"""Reports of what scans and commits cost.  They are checked as the protocol describes them, and not kept."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from nessie_ops.server.iceberg_requests import read_body

_Metrics = dict[str, dict[str, Any]]


class _Report(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="report-type"):
    table_name: str
    snapshot_id: int
    metrics: _Metrics
    metadata: dict[str, str] | None = None


class ScanReport(_Report, frozen=True, kw_only=True, rename="kebab", tag_field="report-type", tag="scan-report"):
    filter: dict[str, Any] | bool
    schema_id: int
    projected_field_ids: tuple[int, ...]
    projected_field_names: tuple[str, ...]


class CommitReport(_Report, frozen=True, kw_only=True, rename="kebab", tag_field="report-type", tag="commit-report"):
    sequence_number: int
    operation: str


_Kinds = ScanReport | CommitReport


def read_report(body: bytes) -> _Kinds:
    """The report in a request; BadRequest names the field that is wrong."""
    return read_body(body, cast("type[_Kinds]", _Kinds))
