"""What a collection's assets say of themselves: counts, plots, and the report in short, as Dagster's metadata.

A report is a page on the disk of the process that wrote it; its sum is shown here, so that a person who has only the
web interface can decide whether to delete.  Knows nothing of runs.
"""

import base64
import heapq
from collections.abc import Sequence
from typing import Any

import dagster as dg

from nessie_ops.catalog.markdown import to_table
from nessie_ops.gc import report
from nessie_ops.gc.deletion import OPEN
from nessie_ops.gc.expire import Swept
from nessie_ops.gc.explain import decode
from nessie_ops.gc.plots import format_bytes
from nessie_ops.gc.sweep import FATES, Tally, Verdict
from nessie_ops.gc.verify import Verified
from nessie_ops.store.livesets import LiveSets

MAX_NAMED = 20  # files, tables and troubles that are named
Facts = dict[str, Any]


def of_verdicts(verdicts: Sequence[Verdict]) -> Facts:
    """Files and bytes by what is to become of them, with plots by folder and age."""
    facts: Facts = {"folders": len(verdicts)}
    for fate in FATES:
        tallies = [verdict.count(fate) for verdict in verdicts]
        facts[f"files/{fate}"] = sum(tally.files for tally in tallies)
        facts[f"bytes/{fate}"] = sum(tally.size_bytes for tally in tallies)
    if verdicts:
        by_folder, by_age = report.plot(verdicts)
        facts["plots"] = dg.MetadataValue.md("\n\n".join(_picture(svg) for svg in (by_folder, by_age)))
    return facts


def of_report(found: report.Report, sets: LiveSets, swept: Swept) -> Facts:
    """The sum of a report, over all shards: the tables and files with most to delete, and what went wrong."""
    largest = heapq.nlargest(
        MAX_NAMED, sets.list_files(swept.record.number, OPEN), key=lambda file: (file.size_bytes, file.location)
    )
    parts = [
        to_table(("", "Files", "Bytes"), ((fate, *_numbers(found.fates.get(fate, Tally()))) for fate in FATES)),
        to_table(
            ("Table", "Dead files", "Bytes", "Live files", "Bytes"),
            (
                (
                    ", ".join(table.tables) or table.folder,
                    *_numbers(table.fates.get("dead", Tally())),
                    *_numbers(table.fates.get("live", Tally())),
                )
                for table in found.tables[:MAX_NAMED]
            ),
        ),
        to_table(
            ("Largest dead files", "Bytes", "Held last"),
            ((file.location, format_bytes(file.size_bytes), decode(file.reason) or "") for file in largest),
        ),
    ]
    facts: Facts = {"summary": dg.MetadataValue.md("\n\n".join(parts))}
    if troubles := _troubles(found):
        facts["troubles"] = dg.MetadataValue.json(troubles[:MAX_NAMED])
    if found.shrunk:
        facts["rewritten_metadata"] = dg.MetadataValue.json([str(row) for row in found.shrunk[:MAX_NAMED]])
        facts["expired_snapshots"] = sum(row.snapshots for row in found.shrunk)
    return facts


def of_verified(found: Verified) -> Facts:
    """What a second look at the heads came to."""
    wrong = found.live + found.unsure
    facts: Facts = {"candidates": found.candidates, "live_files": found.live_files, "live_candidates": len(found.live)}
    facts |= {"unsure_candidates": len(found.unsure), "broken_tables": len(found.broken)}
    return {**facts, "files": dg.MetadataValue.json(wrong[:MAX_NAMED])}


def _troubles(found: report.Report) -> list[str]:
    return [
        *([found.stopped] if found.stopped else []),
        *(f"broken: {row['table']}: {row['location']}: {row['why']}" for row in found.broken),
        *(f"metadata stays: {row.table} on {row.branch}: {row.why}" for row in found.untouched),
        *(f"not listed: {location}: {why}" for location, why in found.refused.items()),
        *(f"not listed to the end: {base}: {why}" for base, why in found.unlisted.items()),
        *([f"who held the files last is not looked up: {found.explained}"] if found.explained else []),
    ]


def _numbers(tally: Tally) -> tuple[str, str]:
    return f"{tally.files:,}", format_bytes(tally.size_bytes)


def _picture(svg: str) -> str:
    """SVG as an image in Markdown, which Dagster's pages show."""
    return f"![bytes](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
