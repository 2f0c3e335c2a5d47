"""Makes msgspec's knowledge of struct types complete before threads use them.

msgspec 0.22 looks at a type's fields when it is first decoded or converted to.  A second thread that does so
meanwhile finds them half made, and the process dies of a segmentation fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

_PACKAGE = "nessie_ops."


def prepare_structs() -> int:
    """Look at all struct types of this project that are imported by now; how many there are."""
    kinds = set(_subclasses(msgspec.Struct))
    for kind in kinds:
        with suppress(TypeError):  # is a value of the program, and never decoded
            msgspec.json.Decoder(kind)
    return len(kinds)


def _subclasses(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith(_PACKAGE):
            yield below
        yield from _subclasses(below)
