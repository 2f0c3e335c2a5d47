"""An example of each command, shown at the end of its help.  A test reads each as the command line itself would."""

from __future__ import annotations

from typing import Any

from nessie_ops.cli.shapes import describe_shape

EXAMPLES = {
    "serve": "--port 19120 --workers 4",
    "branch list": "--prefix run/",
    "branch create": "dev --from main~1",
    "branch delete": "dev --dry-run",
    "branch assign": "dev --to main",
    "branch validate": "dev --into main",
    "branch reap": "--dry-run",
    "tag list": "--json",
    "tag create": "before-backfill --from main",
    "tag delete": "before-backfill",
    "tag assign": "published --to main --dry-run",
    "log": "main --back-to main~5 --operations",
    "show": "silver.flights --ref main~1",
    "contents": "main --prefix silver --type ICEBERG_TABLE",
    "entries": "dev --limit 50",
    "diff": "main~1 main --prefix silver",
    "merge": "dev --branch main --key silver.flights=DROP --dry-run",
    "transplant": "dev~1 dev --branch main",
    "revert": "--key silver.flights --to main~3 --message 'back to Monday'",
    "txn begin": "--on main --isolation REPEATED_READ --lease PT30M",
    "txn list": "--state COMMITTED --json",
    "txn show": "3f0c6f0d7e1b4b53a6f6f3a3e0d4c111",
    "txn commit": "txn/3f0c6f0d7e1b4b53a6f6f3a3e0d4c111 --message 'move rows'",
    "txn rollback": "3f0c6f0d7e1b4b53a6f6f3a3e0d4c111",
    "txn renew": "3f0c6f0d7e1b4b53a6f6f3a3e0d4c111 --lease PT2H",
    "txn reap": "--json",
    "check content": "--ref main --json",
    "events show": "--after 100 --limit 20",
    "events list": "--json",
    "events add": "loads https://hooks.example/loads --kind MERGE --references main",
    "events delete": "loads",
    "events pause": "loads",
    "events resume": "loads",
    "events test": "loads",
    "events dead-letters": "loads --limit 10",
    "events retry": "loads --seq 17",
    "events discard": "loads --seq 17",
    "gc help": "sweep",
    "gc mark-live": "-c P7D -C main=NONE --write-live-set-id-to live-set",
    "gc sweep": "-L live-set --defer-deletes",
    "gc gc": "-c P30D -C main=NONE --dry-run",
    "gc list": "--json",
    "gc delete": "-L live-set",
    "gc list-deferred": "-L live-set",
    "gc deferred-deletes": "-L live-set --dry-run",
    "gc show": "-L live-set --with-base-locations",
    "gc why": "s3://lake/flights/data/00000.parquet",
    "gc show-sql-create-schema-script": "--database postgresql",
    "gc create-sql-schema": "--jdbc-url jdbc:postgresql://db.example/gc --jdbc-schema CREATE",
    "gc completion-script": "--output-file gc-completion.sh",
    "gc show-licenses": "--json",
    "merge-request list": "--state OPEN",
    "merge-request show": "7",
    "merge-request open": "dev --into main --check rows_add_up",
    "merge-request report": "7 --passed rows_add_up",
    "merge-request approve": "7 --by ana",
    "merge-request merge": "7",
    "merge-request retry": "7",
    "merge-request close": "7 --reason 'not needed any more'",
    "store upgrade": "--dry-run",
    "store info": "--json",
    "store check": "--json",
    "store purge": "--grace P30D --dry-run",
    "store export": "catalog.tar",
    "store import": "catalog.tar --store sqlite:////srv/new/catalog.db",
    "store restore": "--at 2026-01-31T06:00:00Z --ref main --dry-run",
    "why": "silver.flights --row 'month = 4'",
    "ci up": "--name pr-123 --select silver/flights --month 2013-01",
    "ci merge": "--name pr-123",
    "ci down": "--name pr-123 --dry-run",
    "ci list": "--json",
    "ui": "--port 3000",
    "demo": "",
    "run": "--month 2013-04",
    "run show": "0a1b2c3d --json",
    "sql": "-c 'CREATE BRANCH dev; SHOW LOG ON dev LIMIT 5'",
    "reference": "",
}
"""What follows a command's name in its example."""


def add_examples(command: Any, path: str) -> None:
    """Let the help of a command, or of all commands of a group, end with what --json prints, and its example."""
    if path in EXAMPLES:
        example = f"Example: nessie-ops {path} {EXAMPLES[path]}".rstrip()
        command.epilog = "\n\n".join(filter(None, (describe_shape(path), example)))
    for name, inner in getattr(command, "commands", {}).items():
        add_examples(inner, f"{path} {name}")
