"""The catalog on S3 over REST: PyIceberg's two ways to S3, commits to many tables, several server processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError

from tests.buckets import Buckets
from tests.iceberg.helpers import create, error_of, set_properties
from tests.iceberg.test_pyiceberg import SCHEMA, batch, ids
from tests.server.processes import Served

FILE_IO = ("pyiceberg.io.fsspec.FsspecFileIO", "pyiceberg.io.pyarrow.PyArrowFileIO")


@pytest.fixture(scope="module")
def served(buckets: Buckets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two server processes that alone have keys of S3."""
    bucket = buckets.create()
    folder = tmp_path_factory.mktemp("s3")
    settings = {**buckets.environment, "NESSIE_OPS_WAREHOUSE": f"s3a://{bucket}/wh"}
    with Served(folder, "--workers", "2", **settings) as server:
        yield server


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{served.base_uri}/iceberg", timeout=60) as client:
        yield client


@pytest.fixture(params=FILE_IO, ids=lambda name: name.rpartition(".")[2])
def catalog(request: pytest.FixtureRequest, served: Served, buckets: Buckets) -> RestCatalog:
    """With keys of one's own: all else comes from the server."""
    keys = {"s3.access-key-id": buckets.key, "s3.secret-access-key": buckets.secret}
    return RestCatalog("s3", uri=f"{served.base_uri}/iceberg", **keys, **{"py-io-impl": request.param})


def test_create_append_read(catalog: RestCatalog, namespace: str) -> None:
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(batch(1, 2))
    table.overwrite(batch(9), overwrite_filter="id < 2")
    assert table.location().startswith("s3://")
    assert ids(catalog.load_table(f"{namespace}.t")) == [2, 9]
    with catalog.create_table_transaction(f"{namespace}.staged", SCHEMA) as change:
        change.append(batch(3))
    assert ids(catalog.load_table(f"{namespace}.staged")) == [3]
    with pytest.raises(BadRequestError, match="outside the warehouse"):
        catalog.create_table(f"{namespace}.out", SCHEMA, location="s3://other/t")


def test_register_after_drop(catalog: RestCatalog, namespace: str) -> None:
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(batch(1))
    catalog.drop_table(f"{namespace}.t")
    again = catalog.register_table(f"{namespace}.again", table.metadata_location.replace("s3://", "s3n://"))
    assert again.metadata_location == table.metadata_location
    assert ids(again) == [1]


def test_many_tables_in_one_commit(http: httpx.Client, db: str, namespace: str) -> None:
    """All or none: when one requirement fails, no file of the others stays behind."""
    tables = [create(http, db, name) for name in ("a", "b")]
    changes = [
        {"identifier": {"namespace": [namespace], "name": name}, **set_properties(table, owner="ops")}
        for name, table in zip("ab", tables)
    ]
    assert http.post("/v1/main/transactions/commit", json={"table-changes": changes}).status_code == 204
    for name in "ab":
        loaded = http.get(f"{db}/tables/{name}").json()
        assert loaded["metadata"]["properties"]["owner"] == "ops"
    changes[1]["requirements"] = [{"type": "assert-table-uuid", "uuid": str(UUID(int=0))}]
    changes[0]["updates"] = [{"action": "set-properties", "updates": {"owner": "nobody"}}]
    refused = http.post("/v1/main/transactions/commit", json={"table-changes": changes})
    assert error_of(refused)[:2] == (409, "CommitFailedException")
    assert http.get(f"{db}/tables/a").json()["metadata"]["properties"]["owner"] == "ops"


def test_clients_are_told_where_the_store_is_and_no_secret(http: httpx.Client, buckets: Buckets) -> None:
    config = http.get("/v1/config")
    told = config.json()["defaults"]
    assert told["s3.endpoint"] == buckets.endpoint
    assert (told["s3.path-style-access"], told["client.region"]) == ("true", "us-east-1")
    assert buckets.secret not in config.text and buckets.key not in config.text


def test_an_error_holds_no_secret(buckets: Buckets, tmp_path: Path) -> None:
    """Neither the answer nor what the server writes to its log."""
    settings = {**buckets.environment, "NESSIE_OPS_WAREHOUSE": "s3://no-such-bucket/wh"}
    with (
        Served(tmp_path, **settings) as server,
        httpx.Client(base_url=f"{server.base_uri}/iceberg", timeout=60) as http,
    ):
        http.post("/v1/main/namespaces", json={"namespace": ["db"]})
        schema = {"type": "struct", "fields": []}
        answer = http.post("/v1/main/namespaces/db/tables", json={"name": "t", "schema": schema})
        assert error_of(answer)[:2] == (500, "ServiceFailureException")
        log = server.stop(signal.SIGTERM)[1]
    assert "no-such-bucket" in answer.text and "no-such-bucket" in log
    assert buckets.secret not in answer.text + log


def test_check_content(served: Served, buckets: Buckets, http: httpx.Client, db: str, tmp_path: Path) -> None:
    """The audit finds the store by the same settings, and what somebody took away."""
    location = create(http, db, "t")["metadata-location"]
    bucket, _, name = location.removeprefix("s3://").partition("/")
    buckets.client().delete_object(Bucket=bucket, Key=name)
    environment = {**os.environ, **buckets.environment, "NESSIE_OPS_WAREHOUSE": f"s3://{bucket}/wh"}
    command = [sys.executable, "-m", "nessie_ops", "check", "content", "--store", served.store]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and f"{location}" in done.stdout and "missing" in done.stdout, done
    assert buckets.secret not in done.stdout + done.stderr
