"""Remote signing: a client describes a request to S3, and gets the headers that make it valid.

Follows Iceberg's `RemoteSignRequest`.  Invariant: what is signed is a request whose effect is known here, reading,
listing or adding objects within a grant; whatever is not known is refused: sub-resources such as `?acl`, copies of
other objects, hosts other than those of the store, paths that are not in normal form.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from nessie_ops.catalog.grants import METADATA_SUFFIX, Grant
from nessie_ops.catalog.locations import normalize
from nessie_ops.catalog.stores import S3
from nessie_ops.errors import BadRequest, Forbidden, StoreUnavailable

READ, WRITE, LIST = "read", "write", "list"
_UNSIGNED, _UNSIGNED_TRAILER = "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_OPERATIONS = {  # method and parameters of a request for an object
    ("GET", frozenset[str]()): READ,
    ("HEAD", frozenset[str]()): READ,
    ("PUT", frozenset[str]()): WRITE,
    ("POST", frozenset({"uploads"})): WRITE,
    ("PUT", frozenset({"partNumber", "uploadId"})): WRITE,
    ("POST", frozenset({"uploadId"})): WRITE,
    ("DELETE", frozenset({"uploadId"})): WRITE,  # gives an upload up
}
_OF_LISTS = {"list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after", "encoding-type"}
_OF_LISTS |= {"fetch-owner"}
_NO_EFFECT = {"x-id"}  # which some clients add to say what they call
_SIGNED = re.compile(
    r"x-amz-(content-sha256|checksum-[a-z0-9-]+|sdk-checksum-algorithm|decoded-content-length|trailer|storage-class|"
    r"server-side-encryption[a-z0-9-]*|expected-bucket-owner|meta-[a-z0-9-]+)"
)
_REPLACED = {"x-amz-date", "x-amz-security-token"}
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_REGION = re.compile(r"[a-z0-9-]{1,64}")


class SignRequest(msgspec.Struct, frozen=True):
    """A request to S3 as the client is about to send it."""

    region: str
    uri: str
    method: str
    headers: dict[str, list[str]]
    provider: str | None = None
    body: str | None = None
    properties: dict[str, str] | None = None


class Signed(NamedTuple):
    """Headers to add to the request for `uri`."""

    uri: str
    headers: dict[str, list[str]]


class Effect(NamedTuple):
    """What a request does, and where: a location in normal form; of a listing the start of names."""

    operation: str
    location: str


def effect_of(request: SignRequest, s3: S3) -> Effect:
    """What `request` does; BadRequest, Forbidden when it is none that may be signed."""
    if request.provider not in (None, "s3"):
        raise BadRequest(f"provider: '{request.provider[:40]}' is not signed for; use s3.")
    if not _REGION.fullmatch(request.region):
        raise BadRequest("region: must be made of small letters, digits and hyphens.")
    parts = _split(request.uri)
    bucket, key = _object(parts, request.region, s3)
    query = _query(parts.query)
    if not key and request.method == "GET" and query.get("list-type") == "2" and query.keys() <= _OF_LISTS:
        prefix = query.get("prefix", "")
        end = "/" if prefix.endswith("/") else ""
        return Effect(LIST, normalize(f"s3://{bucket}/{prefix}", "uri") + end)
    operation = _OPERATIONS.get((request.method, frozenset(query)))
    if not key or operation is None:
        asked = f"{request.method[:10]}{' ?' if query else ''}{'&'.join(sorted(query))[:80]}"
        raise Forbidden(f"method, uri: {asked} is not signed; objects of the table can be read, listed and added.")
    return Effect(operation, normalize(f"s3://{bucket}/{key}", "uri"))


def check_effect(effect: Effect, grant: Grant) -> None:
    """Forbidden unless `grant` allows what a request does."""
    if not grant.covers(effect.location):
        raise Forbidden(f"uri: {effect.location[:300]} does not lie in the table's location.")
    if effect.operation == WRITE and not grant.may_write:
        raise Forbidden("method: this reference is read-only; write on a branch.")
    if effect.operation == WRITE and effect.location.endswith(METADATA_SUFFIX):
        raise Forbidden(f"uri: files named …{METADATA_SUFFIX} are written by the catalog alone.")


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError as error:
        raise BadRequest(f"uri: {error}.") from None
    if not _PRINTABLE.fullmatch(uri) or " " in uri or "#" in uri or "@" in parts.netloc or not parts.netloc:
        raise BadRequest("uri: must be the encoded URL of an object, without credentials and fragment.")
    return parts


def _object(parts: SplitResult, region: str, s3: S3) -> tuple[str, str]:
    """Bucket and key; the bucket is in the path, or before the store's name in the host."""
    scheme, host = parts.scheme.lower(), parts.netloc.lower()
    own = urlsplit(s3.endpoint)
    stores = [own.netloc.lower()] if s3.endpoint else _hosts_of_aws(region)
    if scheme != (own.scheme or "https"):
        raise BadRequest(f"uri: {scheme}:// is not how the store is reached; use {own.scheme or 'https'}://.")
    try:
        path = unquote(parts.path.removeprefix("/"), errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("uri: the name of its object is not UTF-8.") from None
    for store in stores:
        if host == store:
            bucket, _, key = path.partition("/")
            return bucket, key
        if host.endswith(f".{store}"):
            return host.removesuffix(f".{store}"), path
    raise Forbidden(f"uri: {host[:200]} is not the host of this catalog's store.")


def _hosts_of_aws(region: str) -> list[str]:
    hosts = [f"s3.{region}.amazonaws.com", f"s3.dualstack.{region}.amazonaws.com", f"s3.{region}.amazonaws.com.cn"]
    return [*hosts, "s3.amazonaws.com"]


def _query(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError as error:
        raise BadRequest(f"uri: its query cannot be read: {error}.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequest("uri: names a parameter of the query twice.")
    return {name: value for name, value in found.items() if name not in _NO_EFFECT}


def headers_to_sign(given: Mapping[str, list[str]]) -> dict[str, str]:
    """Those of a client's headers that the signature vouches for; Forbidden when one has an effect not known here."""
    found = {}
    for name, values in given.items():
        name, value = name.lower(), ",".join(values)
        if not _PRINTABLE.fullmatch(value):
            raise BadRequest(f"headers: {name[:80]} holds characters that a header cannot hold.")
        if name.startswith("x-amz-") and name not in _REPLACED:
            if not _SIGNED.fullmatch(name):
                raise Forbidden(f"headers: {name[:80]} is not signed.")
            found[name] = value
    return found


class Signer:
    """Signs with the catalog's own credentials, as the AWS libraries find and renew them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Any = None

    def sign(self, request: SignRequest) -> Signed:
        """The headers that `request` lacks; the caller has checked what it does.  StoreUnavailable."""
        from botocore.awsrequest import AWSRequest

        headers = headers_to_sign(request.headers)
        default = _UNSIGNED_TRAILER if "x-amz-trailer" in headers else _UNSIGNED
        payload = headers.pop("x-amz-content-sha256", default)
        signed = AWSRequest(method=request.method, url=request.uri, headers=headers)
        _make_auth(self._find(), request.region, lambda: payload).add_auth(signed)
        had = {name.lower() for name in request.headers}
        return Signed(request.uri, {name: [value] for name, value in signed.headers.items() if name.lower() not in had})

    def _find(self) -> Any:
        import botocore.session  # here, since most processes need none

        with self._lock:
            if self._credentials is None:
                self._credentials = botocore.session.get_session().get_credentials()
        if self._credentials is None:
            raise StoreUnavailable("The server has no credentials of S3; set them in its environment.")
        return self._credentials.get_frozen_credentials()


def _make_auth(credentials: Any, region: str, payload: Callable[[], str]) -> Any:
    from botocore.auth import S3SigV4Auth

    class Auth(S3SigV4Auth):  # type: ignore[misc]
        """Takes the client's word for the body's hash: the body is not sent here."""

        def payload(self, _request: Any) -> str:
            return payload()

    return Auth(credentials, "s3", region)
