"""How object stores are found and reached: settings, missing packages, lost answers, threads and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from nessie_ops.catalog import AWS, S3
from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.stores import FileSystem
from nessie_ops.errors import BadRequest, MachineNotReady, MetadataUnavailable
from nessie_ops.server.settings import Settings
from tests.buckets import Buckets
from tests.iceberg.test_files import check_nothing
from tests.lossy import losing

NAME = "wh/t/metadata/00000-0b9f5b8e-6c0c-4a8e-8a39-6a8f3c1d2e4f.metadata.json"


class TestSettings:
    def test_of_ones_own_before_those_of_aws(self) -> None:
        env = {"NESSIE_OPS_S3_ENDPOINT": "http://own:1/", "AWS_ENDPOINT_URL_S3": "http://other", "AWS_REGION": "eu-1"}
        assert S3.from_env(env=env) == S3(endpoint="http://own:1", region="eu-1")
        assert S3.from_env({"endpoint": "http://given", "region": "", "path_style": "true"}, env) == S3(
            endpoint="http://given", region="eu-1", path_style=True
        )
        assert S3.from_env(env={"AWS_ENDPOINT_URL": "https://x", "AWS_DEFAULT_REGION": "r"}).endpoint == "https://x"
        assert S3.from_env(env={}) == AWS
        assert Settings.from_env(env=env).s3.endpoint == "http://own:1"

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("NESSIE_OPS_S3_ENDPOINT", "s3.example.org"),
            ("NESSIE_OPS_S3_ENDPOINT", "ftp://sesame"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://me:sesame@host"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://sesame@host"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://host/sesame"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://host?key=sesame"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://[sesame"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://host:sesame"),
            ("NESSIE_OPS_S3_ENDPOINT", "http://"),
            ("NESSIE_OPS_S3_REGION", "eu/sesame"),
            ("NESSIE_OPS_S3_PATH_STYLE", "sesame"),
            ("NESSIE_OPS_S3_ROLE_ARN", "arn:sesame"),
            ("NESSIE_OPS_S3_STS_ENDPOINT", "http://me:sesame@host"),
            ("NESSIE_OPS_S3_REMOTE_SIGNING", "sesame"),
        ],
    )
    def test_what_is_wrong_is_named_and_not_repeated(self, variable: str, value: str) -> None:
        with pytest.raises(BadRequest, match=variable) as caught:
            Settings.from_env(env={variable: value})
        assert "sesame" not in caught.value.message

    def test_they_hold_no_secret(self) -> None:
        """They are sent to worker processes and asked of by anybody, so a field for a secret must not come in."""
        assert set(S3.__struct_fields__) == {"endpoint", "region", "path_style"} | {
            "role_arn",
            "sts_endpoint",
            "remote_signing",
        }


class TestPackages:
    @pytest.mark.parametrize(("scheme", "extra"), [("gs", "gcs"), ("abfs", "azure"), ("abfss", "azure")])
    def test_a_missing_one_is_named(self, scheme: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, {"gcs": "gcsfs", "azure": "adlfs"}[extra], None)
        with pytest.raises(MachineNotReady, match=rf"nessie-ops\[{extra}\]"):
            MetadataFiles(Warehouse(f"{scheme}://bucket/wh"))

    def test_an_unknown_kind(self) -> None:
        with pytest.raises(BadRequest, match="warehouse: gopher://"):
            MetadataFiles(Warehouse("gopher://host/wh"))


class TestLostAnswers:
    def test_of_a_write_that_was_done(self, aws: Buckets) -> None:
        """The second attempt is told that the file exists, and finds that it is this very file."""
        lost = iter([True, False, False, False])
        with losing(aws.endpoint, lambda method: method == "PUT" and next(lost)) as endpoint:
            files = MetadataFiles(Warehouse(f"s3://{aws.create()}/wh"), moved(aws, endpoint))
            location = f"{files.warehouse.location}/t.json"
            files.write(location, b"{}", check_nothing)
            assert next(lost) is False, "the answer to the first write was lost"
        assert FileSystem(location, aws.settings).read(10) == b"{}"

    def test_of_all(self, aws: Buckets) -> None:
        """The write is an error; the file, which may be there, is not deleted, since it is not known whose it is."""
        bucket = aws.create()
        with losing(aws.endpoint, lambda _: True) as endpoint:
            files = MetadataFiles(Warehouse(f"s3://{bucket}/wh"), moved(aws, endpoint))
            with pytest.raises(MetadataUnavailable, match="cannot be written"):
                files.write(f"s3://{bucket}/{NAME}", b"{}", check_nothing)
        assert FileSystem(f"s3://{bucket}/{NAME}", aws.settings).read(10) == b"{}"

    def test_another_file_of_the_name_is_left_alone(self, aws: Buckets) -> None:
        bucket = aws.create()
        FileSystem(f"s3://{bucket}/{NAME}", aws.settings).create(b"{}")
        for data in (b"{ }", b"{", b""):
            with pytest.raises(FileExistsError):
                FileSystem(f"s3://{bucket}/{NAME}", aws.settings).create(data)


def moved(aws: Buckets, endpoint: str) -> S3:
    return msgspec.structs.replace(aws.settings, endpoint=endpoint)


def test_errors_hold_no_secret(aws: Buckets) -> None:
    elsewhere = moved(aws, "http://127.0.0.1:9")
    for s3, bucket in ((elsewhere, "lake"), (aws.settings, "no-such-bucket")):
        files = MetadataFiles(Warehouse(f"s3://{bucket}/wh"), s3)
        with pytest.raises(MetadataUnavailable) as caught:
            files.write(f"s3://{bucket}/{NAME}", b"{}", check_nothing)
        assert aws.secret not in str(caught.getrepr())


def test_colons_do_not_chain_file_systems(aws: Buckets) -> None:
    """fsspec reads `a::b` as one file system within another; here it is a name."""
    location = f"s3://{aws.create()}/wh/simplecache::file:/t.json"
    FileSystem(location, aws.settings).create(b"{}")
    assert FileSystem(location, aws.settings).read(10) == b"{}"


def test_many_threads(aws: Buckets) -> None:
    """Of as many who create one file, each its own and all a common one, nobody overwrites."""
    base = f"s3://{aws.create()}/wh"

    def work(n: int) -> bool:
        FileSystem(f"{base}/{n}", aws.settings).create(b"%d" % n)
        try:
            FileSystem(f"{base}/common", aws.settings).create(b"%d" % n)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(work, range(32)))
    assert won.count(True) == 1
    assert FileSystem(f"{base}/common", aws.settings).read(10) == b"%d" % won.index(True)
    assert [FileSystem(f"{base}/{n}", aws.settings).read(10) for n in range(32)] == [b"%d" % n for n in range(32)]


FORKS = """
import os, sys, threading
from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.stores import S3
from tests.iceberg.test_files import check_nothing

base = sys.argv[1]
files = MetadataFiles(Warehouse(base), S3.from_env())
files.write(f"{base}/parent", b"{}", check_nothing)
stop, busy = threading.Event(), threading.Event()

def read_on():
    while not stop.is_set():
        files.read(f"{base}/parent", check_nothing)
        busy.set()

reader = threading.Thread(target=read_on)
reader.start()
busy.wait()
children = []
for n in range(4):
    child = os.fork()
    if child == 0:
        files.write(f"{base}/child{n}", b"{}", check_nothing)
        assert files.read_foreign(f"{base}/parent") == b"{}"
        os._exit(0)
    children.append(child)
ended = [os.waitpid(child, 0)[1] for child in children]
stop.set()
reader.join()
assert all(files.read_foreign(f"{base}/child{n}") == b"{}" for n in range(4))
print(ended)
"""


def test_forked_children(aws: Buckets) -> None:
    """A child that is forked in the middle of its parent's requests makes its own; neither waits for the other."""
    command = [sys.executable, "-c", FORKS, f"s3://{aws.create()}/wh"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2], env=dict(os.environ)
    )
    assert (done.returncode, done.stdout) == (0, "[0, 0, 0, 0]\n"), done.stderr
