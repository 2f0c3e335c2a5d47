"""What the commands on live sets print: nessie-gc's tables, or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from nessie_ops.gc.report import format_time
from nessie_ops.store.livesets import FileRecord, LiveSetRecord

_LIST = "{:<36} {:<22} {:<25} {:<25} {:<25} {:<25} {}"
_DEFERRED = "{:<35} {:<60} {}"
_REFERENCES = "    {:<15} {:<64} {:<50} {:<20} {}"


def parse_zone(name: str) -> ZoneInfo:
    """The time zone of this name, by default that of the system; a usage error."""
    try:
        return ZoneInfo(name or _system_zone())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if not name:
            return ZoneInfo("UTC")
        raise typer.BadParameter(f"--time-zone: there is no time zone '{name[:80]}'.") from None


def _system_zone() -> str:
    if os.environ.get("TZ"):
        return os.environ["TZ"].removeprefix(":")
    return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2] or "UTC"


def print_list(records: Iterable[LiveSetRecord], zone: ZoneInfo) -> None:
    typer.secho(f"Timestamps shown in {zone.key}", italic=True)
    header = ("ID", "Status", "Created", "Identify complete", "Expiry started", "Expiry finished", "Error")
    typer.secho(_LIST.format(*header).rstrip(), underline=True)
    for row in records:
        times = (row.created_at, row.identified_at, row.expiry_started_at, row.expired_at)
        cells = (row.id, row.status, *(_local(time, zone) for time in times), row.error.partition("\n")[0])
        typer.echo(_LIST.format(*cells).rstrip())


def print_live_set(row: LiveSetRecord, contents: int, zone: ZoneInfo) -> None:
    typer.echo("Live content set information:")
    typer.secho(f"Timestamps shown in {zone.key}", italic=True)
    for name, value in (
        ("ID", row.id),
        ("Status", row.status),
        ("Created", format_time(row.created_at)),
        ("Identify complete", _local(row.identified_at, zone)),
        ("Expiry started", _local(row.expiry_started_at, zone)),
        ("Expiry finished", _local(row.expired_at, zone)),
        ("Error", row.error),
        ("Content count", str(contents)),
    ):
        typer.echo(f"{name:<18} {value}".rstrip())


def print_deferred(files: Iterable[FileRecord], *, bold: bool = False) -> None:
    typer.secho(_DEFERRED.format("Modified", "Base URI", "File path"), underline=True, bold=bold)
    for file in files:
        path = file.location.removeprefix(file.base).lstrip("/")
        typer.echo(_DEFERRED.format(format_time(file.modified_at), f"{file.base}/", path))
    typer.echo("End of listing.")


def print_references_header() -> None:
    names = ("Content Type", "Commit ID", "Content Key", "Snapshot ID", "Metadata Location")
    typer.secho(_REFERENCES.format(*names), underline=True)


def print_reference(kind: str, commit: str, key: str, snapshot: int, location: str) -> None:
    typer.echo(_REFERENCES.format(kind, commit, key, snapshot, location))


def to_json(row: LiveSetRecord) -> dict[str, Any]:
    times = {
        "created": row.created_at,
        "identifyComplete": row.identified_at,
        "expiryStarted": row.expiry_started_at,
        "expiryFinished": row.expired_at,
    }
    return {
        "id": row.id,
        "status": row.status,
        **{name: format_time(time) if time else None for name, time in times.items()},
        "error": row.error,
    }


def deferred_to_json(file: FileRecord) -> dict[str, Any]:
    return {
        "location": file.location,
        "base": file.base,
        "sizeBytes": file.size_bytes,
        "modified": format_time(file.modified_at),
    }


def _local(micros: int, zone: ZoneInfo) -> str:
    if not micros:
        return ""
    return datetime.fromtimestamp(micros // 1_000_000, UTC).astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")


def format_duration(micros: int) -> str:
    """An ISO-8601 duration, as Java writes it."""
    whole = timedelta(microseconds=max(0, micros))
    minutes, seconds = divmod(whole.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    shown = f"{seconds:.6f}".rstrip("0").rstrip(".")
    return "PT" + "".join(parts) + (f"{shown}S" if shown != "0" or not any(parts) else "")
