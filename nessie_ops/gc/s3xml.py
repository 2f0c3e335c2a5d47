"""What S3 is asked and answers of long lists of keys, written and read in a tenth of botocore's time.

`hasten` has a client of botocore's do so: its events hand over what would be written and read, before botocore does
it.  Answers that are an error or look unusual are left to botocore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from botocore import handlers

_READERS = {"ListObjectsV2": "ListBucketResult", "DeleteObjects": "DeleteResult"}
_ROW, _ROW_END = b"<Contents>", b"</Contents>"
_KEYS, _SIZES, _TIMES = (re.compile(b"<%b>([^<&]*)</%b>" % (name, name)) for name in (b"Key", b"Size", b"LastModified"))
_DELETED = re.compile(rb"\s*(<\?xml[^<>]*\?>)?\s*<DeleteResult[\s>]")
_BODY = "nessie_ops.body"
_LINES = {"\n": "&#10;", "\r": "&#13;"}  # which readers of XML would make into blanks or other ends of lines


def hasten(client: Any) -> None:
    """Listings and deletions by this client are written and read here."""
    events = client.meta.events
    events.register("before-parameter-build.s3.DeleteObjects", take_keys)
    events.register("before-call.s3.DeleteObjects", write_keys)
    # botocore first parses every answer that ends well, to see whether it is an error; here it does so afterwards.
    look_for_error = getattr(handlers, "_handle_200_error", None)
    if look_for_error:
        events.unregister("before-parse.s3.*", look_for_error)
        events.register("before-parse.s3.*", look_for_error)
    events.register_first("before-parse.s3.*", read_quickly)


def take_keys(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Write the request here; what botocore writes names no key."""
    wanted = params["Delete"]
    context[_BODY] = write_deletion(row["Key"] for row in wanted["Objects"])
    params["Delete"] = {**wanted, "Objects": []}


def write_keys(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Send what was written before; botocore computes its checksum and signature after this."""
    params["body"] = context.pop(_BODY)


def write_deletion(keys: Iterable[str]) -> bytes:
    """A request to delete these keys, which is answered with those alone for which that failed."""
    rows = "</Key></Object><Object><Key>".join(escape(key, _LINES) for key in keys)
    return (
        '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Object><Key>{rows}</Key></Object><Quiet>true</Quiet></Delete>"
    ).encode()


def read_quickly(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    """Read the answer of one request; what is understood is handed over, and botocore gets an empty one."""
    expected = _READERS.get(operation_model.name)
    if expected is None or response_dict["status_code"] != 200:
        return
    body: bytes = response_dict["body"]
    try:
        found = (_skim_listing if expected == "ListBucketResult" else _skim_deletion)(body) or _read(body, expected)
    except (ElementTree.ParseError, ValueError, TypeError):
        return
    if found is not None:
        customized_response_dict.update((name, value) for name, value in found.items() if name != "EncodingType")
        response_dict["body"] = f"<{expected}/>".encode()


def _read(body: bytes, expected: str) -> dict[str, Any] | None:
    root = ElementTree.fromstring(body)
    namespace, brace, name = root.tag.rpartition("}")
    if name != expected:
        return None
    namespace += brace
    return _read_listing(root, namespace) if name == "ListBucketResult" else _read_errors(root, namespace)


def _skim_listing(body: bytes) -> dict[str, Any] | None:
    """A listing whose rows are plain: in one piece, each with one key, size and time, without entities; else None."""
    start, end = body.find(_ROW), body.rfind(_ROW_END)
    if start < 0 or end < start:
        return None
    rows = body[start:end]
    if b"<CommonPrefixes" in rows:
        return None
    rest = _read(body[:start] + body[end + len(_ROW_END) :], "ListBucketResult")
    keys, sizes, times = (pattern.findall(rows) for pattern in (_KEYS, _SIZES, _TIMES))
    if rest is None or rest["IsTruncated"] is None or rest["Contents"]:
        return None
    if not len(keys) == len(sizes) == len(times) == rows.count(_ROW) == rows.count(_ROW_END) + 1:
        return None
    decode = unquote_plus if rest["EncodingType"] == "url" else str
    rest["Contents"] = [
        _row(decode(key.decode()), size, time.decode()) for key, size, time in zip(keys, sizes, times, strict=True)
    ]
    return rest


def _skim_deletion(body: bytes) -> dict[str, Any] | None:
    """An answer that is whole and names no error; else None.  Some servers name all that they deleted."""
    is_plain = _DELETED.match(body) and body.rstrip().endswith(b"</DeleteResult>") and b"Error" not in body
    return {"Errors": []} if is_plain else None


def _read_listing(root: Element, namespace: str) -> dict[str, Any]:
    names = ("EncodingType", "NextContinuationToken", "IsTruncated")
    found: dict[str, Any] = {name: _text(root, namespace + name) for name in names}
    decode = unquote_plus if found["EncodingType"] == "url" else str
    key, size, changed = namespace + "Key", namespace + "Size", namespace + "LastModified"
    rows = [
        _row(decode(_text(row, key)), _text(row, size), _text(row, changed))
        for row in root.iter(namespace + "Contents")
    ]
    prefixes = root.iterfind(f"{namespace}CommonPrefixes/{namespace}Prefix")
    found["CommonPrefixes"] = [{"Prefix": decode(row.text or "")} for row in prefixes]
    return found | {"Contents": rows, "IsTruncated": {"true": True, "false": False}.get(found["IsTruncated"])}


def _row(key: str, size: str | bytes, changed: str) -> dict[str, Any]:
    time = datetime.fromisoformat(changed)
    return {"Key": key, "Size": int(size), "LastModified": time if time.tzinfo else time.replace(tzinfo=UTC)}


def _read_errors(root: Element, namespace: str) -> dict[str, Any]:
    """The keys that could not be deleted; those that were are not wanted."""
    names = ("Key", "Code", "Message")
    return {
        "Errors": [
            {name: row.findtext(namespace + name, "") for name in names} for row in root.iter(namespace + "Error")
        ]
    }


def _text(row: Element, name: str) -> str:
    return row.findtext(name) or ""
