"""What a request of the Iceberg API means: reference, namespace, name, page, body and commit meta.

The reference is named, first match wins, by the table name (`t@branch#hash-or-time`), by the prefix in
the path (`ref`, `ref@hash`, `ref|warehouse`, `-`), or by the path before `v1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from nessie_ops.catalog import MAX_NAMES, IcebergCatalog, Names, names
from nessie_ops.catalog.names import check_name, select_ref
from nessie_ops.catalog.requests import Identifier, Rename
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, ContentKey, NewCommit
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.server.paths import SLASH, restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.requests import CommitMetaIn, json_faults, to_new_commit

T = TypeVar("T")

WAREHOUSE_NAME = "warehouse"
"""What the only warehouse is called where its location would be unwieldy."""
SEPARATOR = "\x1f"  # between the elements of a namespace in paths and queries
DELEGATIONS = ("vended-credentials", "remote-signing")


class Target(NamedTuple):
    """A table or view at a reference."""

    ref: str
    key: ContentKey


class Page(NamedTuple):
    """The part of a listing that is wanted: at a commit, from behind a name; limit None means all."""

    at: CommitHash
    after: str | None
    limit: int | None


class _Position(msgspec.Struct, frozen=True):
    at: CommitHash
    after: str


def get_ref(request: AnyRequest, catalog: IcebergCatalog) -> str:
    """The reference specification in the path; BadRequest when it names another warehouse."""
    ref = parse_prefix(str(request.path_params["prefix"]), catalog, default="")
    return ref or parse_prefix(str(request.path_params.get("ref", "-")), catalog)


def parse_prefix(segment: str, catalog: IcebergCatalog, default: str | None = None) -> str:
    """The reference in a path segment; for `-`, which names none, the default branch or `default`."""
    ref, _, warehouse = restore(segment).replace(SEPARATOR, "/").partition("|")
    check_warehouse(warehouse, catalog)
    if ref in ("", "-"):
        return catalog.default_branch if default is None else default
    return ref


def check_warehouse(warehouse: str, catalog: IcebergCatalog) -> None:
    """BadRequest unless `warehouse` is empty, or the name or the location of the warehouse."""
    location = catalog.warehouse.location
    if warehouse.rstrip("/") not in ("", WAREHOUSE_NAME, location, location.removeprefix("file://")):
        raise BadRequest(f"warehouse: '{warehouse[:200]}' is unknown; this server has {location}. Leave it out.")


def get_namespace(request: AnyRequest) -> ContentKey:
    return parse_namespace(restore(str(request.path_params["namespace"])))


def parse_namespace(text: str) -> ContentKey:
    return ContentKey.of(*text.split(SEPARATOR))


def get_target(request: AnyRequest, catalog: IcebergCatalog, parameter: str) -> Target:
    """The table or view that the path names."""
    return to_target(request, catalog, get_namespace(request), restore(str(request.path_params[parameter])))


def to_target(request: AnyRequest, catalog: IcebergCatalog, namespace: ContentKey, name: str) -> Target:
    """The table or view called `name`, which may choose the reference."""
    return _to_target(get_ref(request, catalog), namespace, name)


def body_target(request: AnyRequest, catalog: IcebergCatalog, identifier: Identifier) -> Target:
    """The table or view that a request body names."""
    return to_target(request, catalog, ContentKey.of(*identifier.namespace), identifier.name)


def rename_targets(request: AnyRequest, catalog: IcebergCatalog, given: Rename) -> tuple[str, ContentKey, ContentKey]:
    """Reference, old and new key of a rename; a new name that chooses no reference stays on that of the old one."""
    source = body_target(request, catalog, given.source)
    target = _to_target(source.ref, ContentKey.of(*given.destination.namespace), given.destination.name)
    return one_ref(catalog, [source, target], "destination.name"), source.key, target.key


def one_ref(catalog: IcebergCatalog, targets: Sequence[Target], field: str) -> str:
    """The reference of all `targets`, of which there is one at least; BadRequest when they name several."""
    return names.one_ref([target.ref for target in targets], catalog.default_branch, field)


def _to_target(default_ref: str, namespace: ContentKey, name: str) -> Target:
    ref, plain = select_ref(default_ref, name)
    return Target(ref, namespace.child(path_name(plain)).validated())


def path_name(name: str) -> str:
    """`name`, if it survives in a path, where U+E000 stands for a slash; BadRequest."""
    if SLASH in name:
        raise BadRequest(f"name: '{name[:80]}' cannot be used in a path; choose another name.")
    return check_name(name)


def get_page(request: AnyRequest, catalog: IcebergCatalog) -> Page:
    """The page asked for.  Later pages read at the commit of the first, so together they are one state."""
    size, token = request.query_params.get("pageSize"), request.query_params.get("pageToken")
    if size is not None and not (size.isascii() and size.isdecimal() and int(size[:9]) > 0):
        raise BadRequest(f"pageSize: '{size[:20]}' must be a positive number.")
    limit = min(int(size[:9]), MAX_NAMES) if size else None if token is None else MAX_NAMES
    position = read_token(token or None, _Position)
    if position:
        return Page(position.at, position.after, limit)
    return Page(catalog.resolve(get_ref(request, catalog)), None, limit)


def next_token(page: Page, found: Names) -> dict[str, str]:
    """The field that leads to the page after `found`; none after the last."""
    if not found.more:
        return {}
    return {"next-page-token": make_token(_Position(page.at, found.names[-1]))}


def get_choice(request: AnyRequest, name: str, *allowed: str) -> str:
    """A query parameter that is one of `allowed`, in any case; the first one when it is absent."""
    given = request.query_params.getall(name, [])
    if not given:
        return allowed[0]
    if len(given) > 1 or given[0].lower() not in allowed:
        raise BadRequest(f"{name}: '{', '.join(given)[:80]}' is unknown; use {' or '.join(allowed)}.")
    return str(given[0]).lower()


def get_delegations(request: AnyRequest) -> set[str]:
    """The ways in which the client asks for access to files, which it need not get; BadRequest when one is unknown."""
    text = request.headers.get("x-iceberg-access-delegation", "")
    ways = {way.strip().lower() for way in text.split(",")} - {""}
    for way in sorted(ways.difference(DELEGATIONS)):
        raise BadRequest(f"X-Iceberg-Access-Delegation: '{way[:80]}' is unknown; use {' or '.join(DELEGATIONS)}.")
    return ways


def read_body(body: bytes, type: type[T]) -> T:
    """The body as `type`; msgspec's errors name the field that is wrong."""
    with json_faults():
        return msgspec.json.decode(body, type=type)


def get_meta(request: AnyRequest) -> NewCommit:
    """Commit meta from the `Nessie-Commit-*` headers; an empty message leaves it to the catalog."""
    return to_new_commit(CommitMetaIn(), request, "") or NewCommit(message="")
