"""docs/events.md tells the truth: its examples are events, and its receiver knows genuine messages."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec

from nessie_ops.events.webhook import make_headers, make_secret
from nessie_ops.model import Event, EventKind
from nessie_ops.model.wire import to_json

TEXT = (Path(__file__).parents[2] / "docs" / "events.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_payloads_are_events() -> None:
    examples = blocks("json")
    assert len(examples) == 2
    for example in examples:
        event = msgspec.json.decode(example, type=Event)
        assert msgspec.json.decode(to_json(event)) == msgspec.json.decode(example), "no field more or less"


def test_every_kind_is_explained() -> None:
    assert all(f"`{kind}`" in TEXT for kind in EventKind)


def test_the_receiver_s_check_works() -> None:
    names: dict[str, Any] = {}
    exec(next(block for block in blocks("python") if "def is_genuine" in block), names)
    secret, body, now = make_secret(b"k" * 32), b'{"seq": 1}', int(time.time())
    headers = make_headers(secret, "evt_1", now, body)
    assert names["is_genuine"](secret, headers, body)
    assert not names["is_genuine"](secret, headers, body + b" ")
    assert not names["is_genuine"](secret, make_headers(secret, "evt_1", now - 400, body), body)
