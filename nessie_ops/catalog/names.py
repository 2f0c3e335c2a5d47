"""Names of tables and views as clients write them: plain, or with a reference (`t@branch#hash-or-time`).

Invariant: the name that `select_ref` leaves can be named again by every client.  Knows neither keys nor HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nessie_ops.errors import BadRequest
from nessie_ops.model import ReferenceSpec

_HASH = re.compile(r"[0-9a-fA-F]{8,64}")


def select_ref(ref: str, name: str) -> tuple[str, str]:
    """The reference specification that `name` means when the catalog is at `ref`, and the name without it.

    BadRequest when a part is missing, when it names two commits, or when a time comes without a branch.
    """
    head, is_past, moment = name.partition("#")
    plain, is_elsewhere, own_ref = head.partition("@")
    check_name(plain)
    if (is_past and not moment) or (is_elsewhere and not own_ref):
        raise BadRequest(f"name: '{name[:80]}' must have a reference after '@', and a commit or a time after '#'.")
    ref = own_ref or ref
    if not is_past:
        return ref, plain
    branch, *rest = re.split("[@~^*]", ref)
    if own_ref and rest:
        raise BadRequest(f"name: '{name[:80]}' names two commits; leave out '#{moment[:80]}'.")
    if _HASH.fullmatch(moment):
        return f"{branch}@{moment}", plain
    if not branch:
        raise BadRequest(
            f"name: '{name[:80]}' names a time, which needs a branch: name one before '#', as in t@main#time."
        )
    return f"{branch}*{moment}", plain


def check_name(name: str) -> str:
    """`name`, if it survives in a path: clients resolve dots, so to drop the table `..` would drop its namespace."""
    if name in (".", ".."):
        raise BadRequest(f"name: '{name[:80]}' cannot be used in a path; choose another name.")
    return name


def one_ref(refs: Sequence[str], default_branch: str, field: str) -> str:
    """What all `refs`, of which there is one at least, mean; BadRequest when they mean several."""
    specs = {ReferenceSpec.parse(ref, default_branch): ref for ref in refs}
    if len(specs) > 1:
        names = ", ".join(sorted(specs.values()))[:200]
        raise BadRequest(f"{field}: one commit changes one branch, but this request names {names}.")
    return refs[0]
