"""Files of S3: keys are taken as they are, with blanks, `%`, `//` or dots in them.

Objects are read by obstore, at a fraction of botocore's cost; a key that obstore does not accept is read by
botocore, which also lists (1,000 keys a request) and deletes (1,000 keys a request, each with its own outcome).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import msgspec
import obstore
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from obstore.store import S3Store

from nessie_ops.catalog.stores import ATTEMPTS, CONNECT_TIMEOUT_S, CONNECTIONS, READ_TIMEOUT_S, S3
from nessie_ops.errors import BadRequest
from nessie_ops.gc.places import NotAPlace, place_of
from nessie_ops.gc.s3xml import hasten
from nessie_ops.gc.storage import Deleted, Folder, ListedFile, StorageError

DELETE_BATCH = 1000  # keys of one request; S3 takes no more
CREDENTIALS_LAST = timedelta(minutes=5)  # until botocore, which knows when they end, is asked again
_NO_XML = re.compile("[\x00-\x1f\ufffe\uffff]")
_NO_KEY, _NO_BUCKET = "NoSuchKey", "NoSuchBucket"
_GONE = {_NO_KEY, _NO_BUCKET, "404", "NotFound"}


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Where S3 is and who asks; without keys, the AWS libraries' own chain is asked for them."""

    s3: S3
    key_id: str = ""
    secret: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Access(s3={self.s3!r})"  # never the keys


class S3Files:
    """Objects of all buckets that `access` reaches."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._client_: Any = None
        self._buckets: dict[str, S3Store] = {}
        self.requests: dict[str, int] = dict.fromkeys(("get", "list", "head", "delete"), 0)

    def physical(self, location: str) -> str:
        return place_of(location)

    def base(self, location: str) -> str:
        bucket, key = split(location)
        return f"s3://{bucket}/{key}".rstrip("/")

    def read(self, location: str) -> bytes:
        bucket, key = split(location)
        self._count("get")
        try:
            return bytes(obstore.get(self._bucket(bucket), key).bytes())
        except FileNotFoundError as error:
            raise FileNotFoundError(location) from error
        except ValueError:  # a key that is no path to obstore
            answer = self._call("get_object", location, Bucket=bucket, Key=key)
            return bytes(answer["Body"].read())
        except Exception as error:  # obstore's own tree
            raise StorageError(f"{location}: {_first_line(error)}") from error

    def list_files(self, base: str) -> Iterator[ListedFile]:
        bucket, key = split(base)
        for page in self._pages(bucket, _prefix_of(key)):
            yield from _files_of(bucket, page)

    def list_level(self, base: str) -> Iterator[ListedFile | Folder]:
        bucket, key = split(base)
        for page in self._pages(bucket, _prefix_of(key), Delimiter="/"):
            yield from _files_of(bucket, page)
            for row in page.get("CommonPrefixes", ()):
                yield from self._folder(bucket, row["Prefix"])

    def _folder(self, bucket: str, prefix: str) -> Iterator[ListedFile | Folder]:
        """A folder, or the files of one whose location `list_files` would take for another's."""
        location = f"s3://{bucket}/{prefix.removesuffix('/')}"
        try:
            is_plain = _prefix_of(split(self.base(location))[1]) == prefix
        except NotAPlace:
            is_plain = False
        if is_plain:
            yield Folder(location)
        else:
            for page in self._pages(bucket, prefix):
                yield from _files_of(bucket, page)

    def _pages(self, bucket: str, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        """The pages of a listing; none of a bucket that is not there."""
        place = f"s3://{bucket}/{prefix}"
        while True:
            self._count("list")
            try:
                page = self._call("list_objects_v2", place, Bucket=bucket, Prefix=prefix, **more)
            except FileNotFoundError as error:
                if isinstance(error.__cause__, ClientError) and _code(error.__cause__) == _NO_BUCKET:
                    return
                raise StorageError(f"{place}: could not be listed: {_first_line(error)}") from error
            yield page
            token = page.get("NextContinuationToken", "")
            if not page.get("IsTruncated"):
                return
            if not token:
                raise StorageError(f"{place}: the store lists a part, and does not say where the next one begins")
            more["ContinuationToken"] = token

    def stat(self, location: str) -> ListedFile | None:
        bucket, key = split(location)
        self._count("head")
        try:
            found = self._call("head_object", location, Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return ListedFile(location, int(found["ContentLength"]), int(found["LastModified"].timestamp() * 1_000_000))

    def is_gone(self, location: str) -> bool:
        """By the code in the store's answer: a proxy whose store is away says 404, too."""
        bucket, key = split(location)
        self._count("get")
        try:
            self._client().get_object(Bucket=bucket, Key=key, Range="bytes=0-0")["Body"].close()
        except ClientError as error:
            code = _code(error)
            if code in (_NO_KEY, _NO_BUCKET):
                return True
            if code == "InvalidRange":  # of an empty object
                return False
            raise StorageError(f"{location}: {code}") from error
        except BotoCoreError as error:
            raise StorageError(f"{location}: {_first_line(error)}") from error
        return False

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        by_bucket: dict[str, list[str]] = {}
        done = []
        for location in locations:
            bucket, key = split(location)
            if _NO_XML.search(key):  # which would make the request for all of them unreadable
                done.append(self._delete_one(bucket, key))
            else:
                by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            for start in range(0, len(keys), DELETE_BATCH):
                done += self._delete(bucket, keys[start : start + DELETE_BATCH])
        return done

    def _delete(self, bucket: str, keys: Sequence[str]) -> Iterator[Deleted]:
        self._count("delete")
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            answer = self._call("delete_objects", f"s3://{bucket}", Bucket=bucket, Delete=objects)
            failed = {row["Key"]: f"{row.get('Code')}: {row.get('Message')}" for row in answer.get("Errors", ())}
        except (StorageError, FileNotFoundError) as error:
            failed = dict.fromkeys(keys, str(error)[:500])
        for key in keys:
            why = failed.get(key, "")
            if why.startswith(_NO_KEY):
                yield Deleted(f"s3://{bucket}/{key}", "gone")
            else:  # most stores do not tell what was gone before
                yield Deleted(f"s3://{bucket}/{key}", "failed" if why else "deleted", why)

    def _delete_one(self, bucket: str, key: str) -> Deleted:
        location = f"s3://{bucket}/{key}"
        self._count("delete")
        try:
            self._call("delete_object", location, Bucket=bucket, Key=key)
        except FileNotFoundError:
            return Deleted(location, "gone")
        except StorageError as error:
            return Deleted(location, "failed", str(error)[:500])
        return Deleted(location, "deleted")

    def _count(self, kind: str) -> None:
        with self._lock:
            self.requests[kind] += 1

    def _call(self, method: str, what: str, **arguments: Any) -> Any:
        call: Callable[..., Any] = getattr(self._client(), method)
        try:
            return call(**arguments)
        except ClientError as error:
            code = _code(error)
            if code in _GONE:
                raise FileNotFoundError(what) from error
            raise StorageError(f"{what}: {code}") from error
        except BotoCoreError as error:
            raise StorageError(f"{what}: {_first_line(error)}") from error

    def _client(self) -> Any:
        with self._lock:
            if self._client_ is None:
                self._client_ = self._open_client()
            return self._client_

    def _open_client(self) -> Any:
        access = self._access
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            s3={"addressing_style": "path" if access.s3.path_style else "auto"},
        )
        client = botocore.session.Session().create_client(
            "s3",
            endpoint_url=access.s3.endpoint or None,
            region_name=access.s3.region or None,
            aws_access_key_id=access.key_id or None,
            aws_secret_access_key=access.secret or None,
            aws_session_token=access.token or None,
            config=config,
        )
        hasten(client)
        return client

    def _bucket(self, name: str) -> S3Store:
        with self._lock:
            found = self._buckets.get(name)
        if found is None:
            found = self._open_bucket(name)
            with self._lock:
                self._buckets[name] = found
        return found

    def _open_bucket(self, name: str) -> S3Store:
        access = self._access
        settings: dict[str, Any] = {"endpoint": access.s3.endpoint} if access.s3.endpoint else {}
        if access.key_id:
            settings |= {"access_key_id": access.key_id, "secret_access_key": access.secret}
            settings |= {"session_token": access.token} if access.token else {}
        else:
            settings["credential_provider"] = _credentials()
        return S3Store(
            name,
            region=access.s3.region or "us-east-1",
            virtual_hosted_style_request=not access.s3.path_style and not access.s3.endpoint,
            client_options={
                "allow_http": access.s3.endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                "timeout": timedelta(seconds=READ_TIMEOUT_S * ATTEMPTS),
            },
            retry_config={"max_retries": ATTEMPTS - 1, "retry_timeout": timedelta(seconds=READ_TIMEOUT_S * ATTEMPTS)},
            **settings,
        )


def _prefix_of(key: str) -> str:
    """What the keys below a folder begin with."""
    return key.rstrip("/") + "/" if key.strip("/") else ""


def _files_of(bucket: str, page: dict[str, Any]) -> Iterator[ListedFile]:
    for row in page.get("Contents", ()):
        if not row["Key"].endswith("/"):  # else the marker of a folder
            changed = int(row["LastModified"].timestamp() * 1_000_000)
            yield ListedFile(f"s3://{bucket}/{row['Key']}", int(row["Size"]), changed)


def split(location: str) -> tuple[str, str]:
    """Bucket and key; the key as it is, without the slash before it.  NotAPlace."""
    place_of(location)  # raises what it must
    bucket, _, key = location.partition("://")[2].partition("/")
    return bucket, key


def _credentials() -> Callable[[], Any]:
    """What tells obstore the keys of botocore's chain, which is richer than its own, and renews them."""
    found = botocore.session.Session().get_credentials()
    if found is None:
        raise BadRequest(
            "S3: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or -I s3.access-key-id=…."
        )

    def ask() -> Any:
        keys = found.get_frozen_credentials()
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + CREDENTIALS_LAST,
        }

    return ask


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code"))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}"
