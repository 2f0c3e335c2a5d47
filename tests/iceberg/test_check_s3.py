"""`nessie-ops check content` on a warehouse in an object store, which answers over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from typer.testing import CliRunner

from nessie_ops.catalog.presence import ASKED_FIRST
from nessie_ops.cli import build_app
from nessie_ops.server.embedded import ensure_embedded
from tests.iceberg.helpers import Json

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
FILES = ASKED_FIRST + 3


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://{}:{}".format(*server.get_host_and_port()))
        for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("DEFAULT_REGION", "us-east-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        fs = fsspec.filesystem("s3", skip_instance_cache=True)
        fs.mkdir("audited")
        yield "s3://audited/lake"
    finally:
        server.stop()
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # else others were to talk to the server that is gone


def check(store: str, warehouse: str) -> tuple[int, Json]:
    words = ["check", "content", "--store", store, "--warehouse", warehouse, "--json"]
    result = CliRunner().invoke(build_app(lambda **_: None), words)
    return result.exit_code, json.loads(result.stdout)


def test_what_is_missing_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/catalog.db"
    io = "pyiceberg.io.fsspec.FsspecFileIO"
    catalog = RestCatalog("test", uri=f"{ensure_embedded(store, bucket)}/iceberg", **{"py-io-impl": io})
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_ID)
    table.append(pa.table({"id": range(FILES)}))
    code, report = check(store, bucket)
    assert (code, report["findings"]) == (0, [])
    assert report["summary"]["files"] == {"metadata": 1, "manifest list": 1, "manifest": 1, "data file": FILES}

    fs = fsspec.filesystem("s3", skip_instance_cache=True)
    lost = sorted(task.file.file_path for task in table.scan().plan_files())[0]
    size = fs.size(lost)
    fs.rm_file(lost)
    code, report = check(store, bucket)
    [finding] = report["findings"]
    assert (code, finding["fault"], finding["file"], finding["detail"]) == (1, "missing", lost, "does not exist")
    assert (finding["table"], finding["references"]) == ("db.t", ["main"])
    fs.pipe_file(lost, b"short")
    _, report = check(store, bucket)
    assert [item["detail"] for item in report["findings"]] == [f"has 5 bytes instead of {size:,}"]
    snapshot = table.current_snapshot()
    assert snapshot
    fs.rm_file(snapshot.manifest_list)
    code, report = check(store, bucket)
    assert [(item["fault"], item["kind"]) for item in report["findings"]] == [("missing", "manifest list")]
