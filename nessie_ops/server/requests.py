"""Request bodies and commit headers, read as Nessie's server reads them.

Unknown fields are ignored, except inside `commitMeta`; null means absent; both spellings of the
doubled fields are understood, the plural one wins.  Keys are valid when a function here returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from litestar import Request

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    ContentKey,
    KeyMergeMode,
    MergeBehavior,
    NewCommit,
    Operation,
    Put,
    UnchangedRange,
    tidy,
)
from nessie_ops.server.problems import UnsupportedMediaType
from nessie_ops.versioning.transplanting import MAX_TRANSPLANTED

T = TypeVar("T")
AnyRequest = Request[Any, Any, Any]

_MAPS = {"properties", "allProperties", "updates"}  # a null inside them is an error, not an absent field
_PROPERTY_HEADER = "nessie-commit-property-"

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class CommitMetaIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    message: str | None = None
    author: str = ""
    authors: tuple[str, ...] = ()
    signed_off_by: str = ""
    all_signed_off_by: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    all_properties: dict[str, tuple[str, ...]] = {}
    author_time: Instant | None = None
    # Only the server may set these; they are named so that the refusal can say so.
    committer: Any = None
    commit_time: Any = None
    hash: Any = None
    parent_commit_hashes: Any = None


class ReferenceIn(msgspec.Struct, frozen=True, rename="camel"):
    """A reference as source of a new one or target of an assignment; `new_properties` are for the new one.

    The source need not be of the `type` that is given, but DETACHED has no name.
    """

    type: Literal["BRANCH", "TAG", "DETACHED"] | None = None
    name: str | None = None
    hash: str | None = None
    new_properties: dict[str, str] = {}

    @property
    def source_name(self) -> str | None:
        return None if self.type == "DETACHED" else self.name


class CommitIn(msgspec.Struct, frozen=True, rename="camel"):
    operations: Annotated[tuple[Operation, ...], msgspec.Meta(min_length=1)]
    commit_meta: CommitMetaIn = CommitMetaIn()


class ApplyIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What requests to apply commits to a branch have in common.  Both spellings of a flag are understood."""

    message: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    commit_meta: CommitMetaIn = CommitMetaIn()
    is_dry_run: bool = False
    dry_run: bool = False
    is_return_conflict_as_result: bool = False
    return_conflict_as_result: bool = False

    @property
    def wants_dry_run(self) -> bool:
        return self.is_dry_run or self.dry_run

    @property
    def wants_conflicts(self) -> bool:
        """Whether conflicts are to be a result rather than an error."""
        return self.is_return_conflict_as_result or self.return_conflict_as_result


class _ByKeyIn(ApplyIn, frozen=True, kw_only=True, rename="camel"):
    from_ref_name: str
    key_merge_modes: tuple[KeyMergeMode, ...] = ()
    default_key_merge_mode: MergeBehavior = MergeBehavior.NORMAL


class MergeIn(_ByKeyIn, frozen=True, kw_only=True, rename="camel"):
    from_hash: str | None = None
    is_only_head: bool = False


class TransplantIn(_ByKeyIn, frozen=True, kw_only=True, rename="camel"):
    hashes_to_transplant: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MAX_TRANSPLANTED)]


class KeysIn(msgspec.Struct, frozen=True, rename="camel"):
    requested_keys: Annotated[tuple[ContentKey, ...], msgspec.Meta(min_length=1)]


class PropertiesIn(msgspec.Struct, frozen=True):
    updates: dict[str, str] = {}
    removals: tuple[str, ...] = ()


def read_body(request: AnyRequest, body: bytes, type: type[T]) -> T:
    """The body as `type`; BadRequest names the field that is wrong.  An empty body is an empty object."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise UnsupportedMediaType(f"Content-Type: '{media_type}' is not supported; send application/json.")
    with json_faults():
        try:
            decoded: T = _decoder(cast(Any, type)).decode(body or b"{}")
            return decoded
        except (msgspec.ValidationError, RecursionError):
            pass  # perhaps for a null, which means absent
        return msgspec.convert(_without_nulls(msgspec.json.decode(body or b"{}")), type)


@contextmanager
def json_faults() -> Iterator[None]:
    """BadRequest for what is wrong with a body beyond its fields and its syntax."""
    try:
        yield
    except RecursionError:
        raise BadRequest("request body: JSON is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"request body: is not UTF-8: {error}.") from None


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: item if name in _MAPS else _without_nulls(item) for name, item in value.items() if item is not None}


def check_keys(keys: Iterable[ContentKey]) -> None:
    """BadRequest unless all keys obey the limits."""
    for key in keys:
        key.validated()


def read_commit(request: AnyRequest, body: bytes) -> tuple[NewCommit, tuple[Operation, ...]]:
    """Meta and operations of a commit request, with what the headers say."""
    given = read_body(request, body, CommitIn)
    check_keys(key for operation in given.operations for key in _keys_of(operation))
    meta = to_new_commit(given.commit_meta, request)
    if meta is None:
        raise BadRequest("commitMeta.message: must not be null.")
    return meta, tuple(_tidy(operation) for operation in given.operations)


def _keys_of(operation: Operation) -> list[ContentKey]:
    if isinstance(operation, UnchangedRange):
        return [key for key in (operation.prefix, operation.first, operation.last) if key]
    return [operation.key]


def _tidy(operation: Operation) -> Operation:
    if not isinstance(operation, Put) or operation.content is tidy(operation.content):
        return operation
    return Put(operation.key, tidy(operation.content))


def tidy_modes(modes: Iterable[KeyMergeMode]) -> tuple[KeyMergeMode, ...]:
    """The modes, whose keys obey the limits, with their contents as `tidy` leaves them."""
    modes = tuple(modes)
    check_keys(mode.key for mode in modes)
    return tuple(
        msgspec.structs.replace(
            mode,
            expected_target_content=mode.expected_target_content and tidy(mode.expected_target_content),
            resolved_content=mode.resolved_content and tidy(mode.resolved_content),
        )
        for mode in modes
    )


def to_new_commit(given: CommitMetaIn, request: AnyRequest, default_message: str | None = None) -> NewCommit | None:
    """Commit meta of a body merged with the `Nessie-Commit-*` headers; None when nothing gives a message.

    A message in a header replaces the body's, as a property does one of its name; authors and sign-offs are added.
    """
    _refuse_server_fields(given)
    header = request.headers.get("nessie-commit-message", "").strip()
    candidates = (header or None, given.message or None, default_message, given.message)
    message = next((text for text in candidates if text is not None), None)
    if message is None:
        return None
    single = {name: (value,) for name, value in given.properties.items()}
    properties = {name: values for name, values in (given.all_properties or single).items() if values}
    return NewCommit(
        message=message,
        authors=_names(given.authors, given.author) + _header_list(request, "nessie-commit-authors"),
        signed_off_by=_names(given.all_signed_off_by, given.signed_off_by)
        + _header_list(request, "nessie-commit-signedoffby"),
        author_time=_to_utc(given.author_time),
        properties=properties | _header_properties(request),
    )


def _to_utc(time: datetime | None) -> datetime | None:
    try:
        return time and time.astimezone(UTC)
    except OverflowError:  # in UTC it is before year 1 or after 9999: it could be stored, but not shown again
        raise BadRequest(f"commitMeta.authorTime: {time} is out of range.") from None


def _refuse_server_fields(given: CommitMetaIn) -> None:
    for name, value in (
        ("committer", given.committer),
        ("commitTime", given.commit_time),
        ("hash", given.hash),
        ("parentCommitHashes", given.parent_commit_hashes),
    ):
        if value not in (None, []):
            raise BadRequest(f"commitMeta.{name}: is set by the server; leave it out.")


def _names(plural: tuple[str, ...], single: str) -> tuple[str, ...]:
    return plural or ((single,) if single else ())


def _header_properties(request: AnyRequest) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in request.headers.multi_items():
        if name.startswith(_PROPERTY_HEADER) and len(name) > len(_PROPERTY_HEADER):
            own = name.removeprefix(_PROPERTY_HEADER)
            found[own] = (*found.get(own, ()), value.strip())
    return found


def _header_list(request: AnyRequest, name: str) -> tuple[str, ...]:
    values = ",".join(request.headers.getall(name, [])).split(",")
    return tuple(value.strip() for value in values if value.strip())
