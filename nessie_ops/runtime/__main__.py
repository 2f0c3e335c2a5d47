"""`python -m nessie_ops.runtime`: find Java, fetch the Iceberg jar and archive Spark's classes, saying each."""

from __future__ import annotations

import sys

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.cds import build_archive
from nessie_ops.runtime.jars import ensure_jar, tell
from nessie_ops.runtime.java import find_java


def main() -> int:
    """Exit code 0 when Spark can start; 1, with one line that says what is missing, when it cannot."""
    try:
        java = find_java()
        tell(f"Java {java.major} from {java.source}")
        jar = ensure_jar()
    except MachineNotReady as error:
        tell(f"error: {error}")
        return 1
    tell("preparing a fast start of Spark, some 20 s ...")
    tell("ready" if build_archive(java, jar) else "ready (Spark will start a few seconds slower than it could)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
