"""Commits to a branch for ever, printing each hash once it is acknowledged.  Usage: writer.py URL NAME"""

from __future__ import annotations

import sys

from nessie_ops.model import NewCommit
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import put, table

url, name = sys.argv[1:]
versions = VersionStore.open(url)
n = 0
while True:
    n += 1
    expected = versions.get_reference("main").hash
    meta = NewCommit(message=f"{name} {n}")
    result = versions.commit("main", expected, meta, [put(f"{name}-{n}", table(n))])
    sys.stdout.write(f"{n} {result.target_branch.hash}\n")
    sys.stdout.flush()
