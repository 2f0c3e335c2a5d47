"""The class-data archive may be missing or spoilt: Spark's JVM starts all the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nessie_ops.runtime.cds import archive_options, build_archive
from nessie_ops.runtime.jars import ensure_jar
from nessie_ops.runtime.java import Java, find_java


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Java, Path]:
    """Java and the jar, with an empty cache for the archive."""
    jar = ensure_jar()
    monkeypatch.setenv("NESSIE_OPS_CACHE", str(tmp_path))
    return find_java(), jar


def test_without_an_archive_there_is_no_option(machine: tuple[Java, Path]) -> None:
    assert archive_options(*machine) == []


def test_an_archive_that_cannot_be_made_is_done_without(machine: tuple[Java, Path], tmp_path: Path) -> None:
    java, jar = machine
    broken = tmp_path / "broken"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (broken / "bin" / "java").chmod(0o755)
    assert not build_archive(Java(broken, java.major, "JAVA_HOME"), jar)
    assert list((tmp_path / "cds").iterdir()) == []


def test_a_spoilt_archive_is_ignored_in_silence(machine: tuple[Java, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    java, jar = machine
    monkeypatch.setattr("nessie_ops.runtime.cds._build", lambda _java, _jar, archive: spoil(archive))
    assert build_archive(java, jar)
    options = archive_options(java, jar)
    assert len(options) == 3
    started = subprocess.run([java.executable, *options, "-version"], capture_output=True, text=True)
    assert started.returncode == 0
    assert "archive" not in started.stdout + started.stderr


def spoil(archive: Path) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"\0" * 4096)
