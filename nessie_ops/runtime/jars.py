"""Iceberg's jars for Spark: fetched once, pinned by their checksums, then used without a network.

They are fetched by Apache Ivy, which is among PySpark's own jars and knows Maven Central.  What is in the cache under
the pinned name has been verified before it got that name and is verified again at each use, as 48 MB hash in a
tenth of a second.  Several processes may fetch at once; each works in a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.home import create_cache, get_cache
from nessie_ops.runtime.java import Java, find_java
from nessie_ops.runtime.truststore import trust_store

FETCH_TIMEOUT_S = 900  # a 48 MB file over a line of half a megabit
_POLL_S = 0.5
# Where tools are told of extra certificate authorities, in the order of how directly the name says so.
_AUTHORITY_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")


@dataclass(frozen=True)
class Jar:
    """A Maven artifact of one exact content."""

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


ICEBERG_RUNTIME = Jar(
    group="org.apache.iceberg",
    artifact="iceberg-spark-runtime-4.1_2.13",
    version="1.12.0",
    sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    size_bytes=48_309_426,
)
ICEBERG_AWS = Jar(  # what Iceberg's S3FileIO needs besides: the AWS libraries; wanted where tables are on S3
    group="org.apache.iceberg",
    artifact="iceberg-aws-bundle",
    version=ICEBERG_RUNTIME.version,
    sha256="dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    size_bytes=69_034_612,
)


def tell(line: str) -> None:
    """Show one line of progress to a person."""
    print(line, file=sys.stderr, flush=True)


def ensure_jar(jar: Jar = ICEBERG_RUNTIME, report: Callable[[str], None] = tell) -> Path:
    """The verified path of `jar` in the cache, fetched first when absent or damaged.

    Raises MachineNotReady when it can be neither found nor fetched, or when Java is missing.
    """
    path = get_cache() / "jars" / jar.file_name
    if path.is_file() and _sha256(path) == jar.sha256:
        return path
    return _fetch(jar, path, report)


def spark_jars() -> Path:
    """The folder of the jars that PySpark brings.  Raises MachineNotReady when PySpark is not installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MachineNotReady("the package pyspark is not installed: run `make setup`")
    return Path(spec.origin).parent / "jars"


def _fetch(jar: Jar, path: Path, report: Callable[[str], None]) -> Path:
    create_cache(get_cache(), "jars")
    java = find_java()
    report(f"fetching {jar.file_name} ({jar.size_bytes / 1e6:.0f} MB), once ...")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
        scratch = Path(folder)
        log = _run_ivy(jar, java, scratch, report)
        fetched = scratch / jar.file_name
        if not fetched.is_file():
            raise MachineNotReady(_explain(jar, path, log))
        if (digest := _sha256(fetched)) != jar.sha256:
            raise MachineNotReady(
                f"{jar.file_name}: what was fetched has sha256 {digest}, not the pinned {jar.sha256}; nothing was kept"
            )
        os.replace(fetched, path)
    report(f"{jar.file_name}: sha256 verified, kept in {path.parent}")
    return path


def _run_ivy(jar: Jar, java: Java, scratch: Path, report: Callable[[str], None]) -> str:
    """Let Ivy put the jar into `scratch`; returns its log, whether or not it succeeded."""
    command = [
        str(java.executable),
        *_network_options(scratch),
        f"-Divy.default.ivy.user.dir={scratch / 'ivy'}",
        *("-cp", f"{spark_jars()}/*", "org.apache.ivy.Main"),
        *("-cache", str(scratch / "cache"), "-notransitive", "-types", "jar"),  # not its sources and documentation
        *("-dependency", jar.group, jar.artifact, jar.version),
        *("-retrieve", f"{scratch}/[artifact]-[revision].[ext]"),
    ]
    log = scratch / "ivy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _watch(process, jar, scratch, report)
        finally:
            process.kill()
            process.wait()
    return log.read_text(errors="replace")


def _watch(process: subprocess.Popen[bytes], jar: Jar, scratch: Path, report: Callable[[str], None]) -> None:
    """Wait for `process`, reporting each quarter of the jar; gives up after FETCH_TIMEOUT_S."""
    deadline, next_quarter = time.monotonic() + FETCH_TIMEOUT_S, 1
    while process.poll() is None and time.monotonic() < deadline:
        largest = _largest_part(scratch / "cache")
        if largest * 4 >= jar.size_bytes * next_quarter:
            report(f"  {largest / 1e6:.0f} MB")
            next_quarter = largest * 4 // jar.size_bytes + 1
        time.sleep(_POLL_S)


def _largest_part(folder: Path) -> int:
    """The size in bytes of the largest file that is being fetched; Ivy renames each when it is complete."""
    sizes = [0]
    for file in folder.rglob("*.part"):
        with suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return max(sizes)


def _network_options(scratch: Path) -> list[str]:
    """Java's words for what the environment says of proxies and certificate authorities."""
    options = ["-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000"]
    proxy = urlsplit(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or "")
    if proxy.hostname:
        options += [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]
    authorities = next(filter(None, map(os.environ.get, _AUTHORITY_VARIABLES)), None)
    if authorities:
        store = scratch / "authorities.jks"
        try:
            store.write_bytes(trust_store(authorities))
        except OSError as error:
            raise MachineNotReady(f"the certificate file {authorities} cannot be read: {error}") from error
        options += [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]
    return options


def _explain(jar: Jar, path: Path, log: str) -> str:
    """One line for a failed fetch, with Ivy's own first error in it."""
    errors = log.partition(":::: ERRORS")[2].split("\n")[1:] or [line for line in log.split("\n") if "rror" in line]
    cause = next(filter(None, map(str.strip, errors)), "no answer from Maven Central")
    return (
        f"{jar.file_name} needs the network once and could not be fetched ({cause[:200]}); "
        f"connect and try again, or copy the file with sha256 {jar.sha256} to {path}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
