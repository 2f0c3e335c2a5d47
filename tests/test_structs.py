"""Struct types are known in full before threads decode them: see `nessie_ops.runtime.structs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own, since it makes the types unreadable for whoever has not looked at them yet.
SCRIPT = """
import contextlib, msgspec
from nessie_ops.catalog import shapes
from nessie_ops.runtime.structs import prepare_structs

prepare_structs()
for shape in (*shapes.UPDATES.values(), *shapes.REQUIREMENTS.values(), shapes.Metadata):
    shape.__annotations__.update(dict.fromkeys(shape.__annotations__, "no_such_type"))
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert({}, shape)
"""


def test_no_type_is_looked_at_for_the_first_time_in_a_request() -> None:
    root = Path(__file__).parents[1]
    ended = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
