"""`nessie-ops show`: one content of a reference, and what its metadata says of a table."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
import typer

from nessie_ops.cli.connection import SPEC, AsJson, Catalog, StoreUrl, Uri, open_catalog, reference_option
from nessie_ops.cli.output import print_json, print_table
from nessie_ops.errors import ContentNotFound, NessieOpsError
from nessie_ops.model import CommitHash, Content, ContentKey, IcebergTable

_LOOKED_AT = 2_000  # keys that are compared with one that does not exist
_TOTALS = {"records": "total-records", "data files": "total-data-files", "bytes": "total-files-size"}
Facts = dict[str, Any]


def show(
    key: Annotated[str, typer.Argument(help="The content, such as silver.flights.")],
    ref: Annotated[str, reference_option("--ref", "-r", help=f"Where it is: {SPEC}.")] = "-",
    warehouse: Annotated[str, typer.Option(envvar="NESSIE_OPS_WAREHOUSE", help="Of a store of one's own.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show a table, view, namespace or other content of a reference.

    Of a table also its format, schema, partitioning, location and size, if its metadata can be read;
    with --json these facts are `table`, null where there are none.
    """
    wanted = ContentKey.from_path(key)
    with open_catalog(uri, store) as catalog:
        found = catalog.resolve(ref)
        content = catalog.get_contents(found.hash, [wanted]).get(wanted)
        if content is None:
            raise _not_found(catalog, found.hash, wanted, found.name)
        table = _read_table(catalog, found.hash, wanted, content, warehouse)
    if as_json:
        about = {"key": wanted, "reference": found.name, "commit": found.hash}
        print_json({**about, "content": content, "table": table})
        return
    rows = [("key", str(wanted)), ("reference", found.name), ("commit", found.hash)]
    rows += [*_describe_content(content), *_describe_table(table or {})]
    print_table(("", ""), rows, cuts=False)


def _not_found(catalog: Catalog, at: CommitHash, key: ContentKey, name: str) -> ContentNotFound:
    keys = [str(entry.name) for entry in catalog.list_entries(at, limit=_LOOKED_AT)]
    near = " or ".join(f"'{text}'" for text in get_close_matches(str(key), keys))
    return ContentNotFound(f"'{key}' does not exist on {name}.{f' Did you mean {near}?' if near else ''}", key)


def _describe_content(content: Content) -> list[tuple[str, str]]:
    fields = msgspec.to_builtins(content)
    rows = [("type", fields.pop("type")), ("id", fields.pop("id", ""))]
    return rows + [(_in_words(name), _to_text(value)) for name, value in fields.items()]


def _in_words(name: str) -> str:
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name)


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _read_table(catalog: Catalog, at: CommitHash, key: ContentKey, content: Content, warehouse: str) -> Facts | None:
    """What the metadata says of a table; None, with a line on stderr, when it cannot be read."""
    if not isinstance(content, IcebergTable):
        return None
    from nessie_ops.cli.provenance import open_metadata  # here, as it takes a second to load

    try:
        metadata = open_metadata(catalog, warehouse)(at, key)
    except (NessieOpsError, OSError) as error:
        typer.echo(f"nessie-ops: the metadata cannot be read: {' '.join(str(error).split())}", err=True)
        return None
    found = metadata.json
    schema = _pick(found["schemas"], "schema-id", metadata.current_schema_id)
    spec = _pick(found["partition-specs"], "spec-id", metadata.default_spec_id)
    snapshot = _pick(found.get("snapshots") or (), "snapshot-id", content.snapshot_id)
    names = {field["id"]: field["name"] for field in schema.get("fields", ())}
    summary = snapshot.get("summary") or {}
    return {
        "formatVersion": metadata.format_version,
        "location": metadata.location,
        "columns": [
            {"name": field["name"], "type": field["type"], "required": field["required"]}
            for field in schema.get("fields", ())
        ],
        "partitionedBy": [
            f"{field['transform']}({names.get(field.get('source-id'), field['name'])})"
            for field in spec.get("fields", ())
        ],
        "snapshots": len(found.get("snapshots") or ()),
        "totals": {label: int(summary[name]) for label, name in _TOTALS.items() if name in summary},
        "properties": metadata.properties,
    }


def _pick(rows: Sequence[Facts], name: str, wanted: int) -> Facts:
    return next((row for row in rows if row[name] == wanted), {})


def _describe_table(table: Facts) -> list[tuple[str, str]]:
    if not table:
        return []
    rows = [("format", f"{table['formatVersion']}"), ("location", table["location"])]
    rows += [("snapshots", f"{table['snapshots']:,}")]
    rows += [(label, f"{count:,}") for label, count in table["totals"].items()]
    rows += [("partitioned by", ", ".join(table["partitionedBy"]))] if table["partitionedBy"] else []
    rows += [("property", f"{name}={text}") for name, text in table["properties"].items()]
    return rows + [("column", _describe_column(row)) for row in table["columns"]]


def _describe_column(row: Facts) -> str:
    kind = row["type"] if isinstance(row["type"], str) else row["type"]["type"]
    return f"{row['name']} {kind}{' required' if row['required'] else ''}"
