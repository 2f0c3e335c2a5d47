"""What each command prints with `--json`: the names of the fields, which stay as they are.

`[]` before them: a list of such objects.  `?` after a name: left out where there is nothing to say.  Hashes, keys,
contents, commits, references and what consists of them are those of the REST API.
"""

from __future__ import annotations

_REFERENCE = "type name hash properties?"
_ENTRY = "type name contentId content"
_MERGED = (
    "wasApplied wasSuccessful resultantTargetHash commonAncestor targetBranch effectiveTargetHash expectedHash details"
)
_TRANSACTION = (
    "id branch target isolation state startHash baseHash startedAt expiresAt author message commitHash endedAt "
    "overtaken"
)
_EVENT = "id seq type timestamp reference referenceType hashBefore hashAfter commits hasMore"
_SUBSCRIBER = "name url kinds references maxAttempts active createdAt cursor behind deadLetters attempts retryAt error"
_REQUEST = (
    "number source sourceHash target title reason author state requiredChecks checks waitsFor failed needsApproval "
    "approvedBy isStale deleteSource attempt outcome conflicts mergeHash createdAt updatedAt steps properties"
)
_LIVE_SET = "id status created identifyComplete expiryStarted expiryFinished error"
_DEFERRED = "location base sizeBytes modified"
_COUNTS = "commits nodes contents moves"

SHAPES = {
    "branch list": f"[] {_REFERENCE}",
    "branch create": _REFERENCE,
    "branch delete": _REFERENCE,
    "branch assign": _REFERENCE,
    "branch validate": _REFERENCE,
    "branch reap": "deleted kept unreadable closed",
    "tag list": f"[] {_REFERENCE}",
    "tag create": _REFERENCE,
    "tag delete": _REFERENCE,
    "tag assign": _REFERENCE,
    "log": "[] commitMeta parentCommitHash operations",
    "show": "key reference commit content table",
    "contents": f"[] {_ENTRY}",
    "entries": f"[] {_ENTRY}",
    "diff": "[] key from to",
    "merge": _MERGED,
    "transplant": _MERGED,
    "revert": _MERGED,
    "txn begin": _TRANSACTION,
    "txn list": f"[] {_TRANSACTION}",
    "txn show": _TRANSACTION,
    "txn commit": _TRANSACTION,
    "txn rollback": _TRANSACTION,
    "txn renew": _TRANSACTION,
    "txn reap": "expired forgotten branches",
    "check content": "findings summary",
    "events show": f"[] {_EVENT}",
    "events list": f"[] {_SUBSCRIBER}",
    "events add": "subscriber secret",
    "events delete": _SUBSCRIBER,
    "events pause": _SUBSCRIBER,
    "events resume": _SUBSCRIBER,
    "events test": "accepted error",
    "events dead-letters": "[] subscriber seq event error attempts at retrying",
    "events retry": "count",
    "events discard": "count",
    "gc mark-live": _LIVE_SET,
    "gc sweep": "liveSet report reports",
    "gc gc": "liveSet report reports",
    "gc list": f"[] {_LIVE_SET}",
    "gc show": f"{_LIVE_SET} contentCount contents? deferredDeletes?",
    "gc delete": f"{_LIVE_SET} deleted",
    "gc list-deferred": f"[] {_DEFERRED}",
    "gc deferred-deletes": "liveSet dryRun files freedBytes stopped reports",
    "gc why": "file fate text liveSet reason detail sizeBytes modified",
    "gc show-sql-create-schema-script": "statements",
    "gc create-sql-schema": "created",
    "gc completion-script": "file",
    "gc show-licenses": "[] name version license",
    "merge-request list": f"[] {_REQUEST}",
    "merge-request show": _REQUEST,
    "merge-request open": _REQUEST,
    "merge-request report": _REQUEST,
    "merge-request approve": _REQUEST,
    "merge-request merge": _REQUEST,
    "merge-request retry": _REQUEST,
    "merge-request close": _REQUEST,
    "store upgrade": "before after steps dryRun",
    "store info": "format database defaultBranch createdAt references tables oldestCommit newestCommit cacheBytes",
    "store check": "faults",
    "store purge": "dryRun liveCommits commits nodes contents dataBytes",
    "store export": _COUNTS,
    "store import": _COUNTS,
    "store restore": "[] name typeBefore before typeAfter after",
    "why": "[] snapshotId summary commit files",
    "ci up": "branch result reason months selected changes checks notRun runs commits mergeRequest catalog",
    "ci merge": "branch number commit already reason dryRun",
    "ci down": "branch head dropped dryRun",
    "ci list": "[] name head base target expiresAt isNew quarantined months expired mergeRequest",
    "run": "month state runId branch attempts commit mergeRequest reason checks",
    "run show": "run_id state branch read_at ends_at commit reason written together",
    "sql": "a line per statement: a list of its rows, by the names of their columns",
}


def describe_shape(path: str) -> str:
    """What `--json` prints, as a sentence; nothing for a command that has no such option."""
    shape = SHAPES.get(path, "")
    if not shape or ":" in shape:
        return f"With --json {shape}." if shape else ""
    is_list, fields = shape.startswith("[]"), shape.removeprefix("[]").split()
    told = ", ".join(f"{field[:-1]} (if any)" if field.endswith("?") else field for field in fields)
    return f"With --json {'a list of objects with' if is_list else 'an object with'} {told}."
