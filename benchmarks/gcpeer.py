"""Collections whose source is a Nessie server: what is live and what is deleted, beside brute force.

    .venv/bin/python -m benchmarks.gcpeer --peer nessie-quarkus-0.99.0-runner.jar [--catalogs 200] [--seed 1]

Random catalogs are made in the server one after another, as the tests make them in our own store, and collected over
its REST API.  Brute force walks every reference alone, by the same API.  Files are in memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

from benchmarks.sides import fetch_peer, running_peer
from nessie_ops.client import NessieClient
from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Stores
from nessie_ops.model import NO_ANCESTOR
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore
from tests.gc.lake import HOUR, Lake
from tests.gc.test_oracle import list_live, take_step

KINDS = ("create", "append", "append", "delete", "expire", "drop", "rename", "move", "view", "old", "junk")
PATTERNS = ("main", "branch.*", "tag.*", ".*")
STEPS = 25


class PeerLake(Lake):
    """A lake whose catalog is a server's, emptied before."""

    def __init__(self, client: NessieClient) -> None:
        super().__init__()
        self.versions.close()
        self.versions = cast(VersionStore, client)  # which has its methods
        for reference in client.list_references():
            if reference.name != client.default_branch:
                client.delete_reference(reference.name, reference.hash)
        main = client.get_reference(client.default_branch)
        if main.hash != NO_ANCESTOR:
            client.assign_reference(main.name, main.hash, NO_ANCESTOR)

    def close(self) -> None:
        """Leave the catalog to the next lake."""
        self.fs.rm(self.root, recursive=True) if self.fs.exists(self.root) else None


def fill(lake: Lake, random: Random) -> None:
    """Random changes."""
    for _ in range(random.randrange(3, STEPS)):
        kind = random.choice((*KINDS, "branch", "tag"))
        take_step(lake, kind, random.randrange(4), random.randrange(5), random.randrange(7))


def choose_policies(lake: Lake, random: Random) -> Policies:
    """Cutoffs of every kind; instants are those of commits."""
    times = [
        entry.commit_meta.commit_time.isoformat()
        for reference in lake.versions.list_references()
        for entry in lake.versions.list_log(reference.hash, limit=50)
    ]
    kinds = ["NONE", "1", "2", "5", "P1D", "PT0S", *random.sample(times, min(3, len(times)))]
    rules = tuple((random.choice(PATTERNS), random.choice(kinds)) for _ in range(random.randrange(3)))
    return Policies(datetime.now(UTC), random.choice(kinds), rules)


def collect(lake: Lake, random: Random) -> Counter[str]:
    """One collection; what was counted.  AssertionError when it is not what brute force finds."""
    sets, policies, only_named = LiveSets.open("sqlite://"), choose_policies(lake, random), random.random() < 0.5
    lake.now += HOUR
    before = lake.list_files()
    live, bases = list_live(lake, policies, only_named=only_named)
    dead = {name for name in before if name not in live and any(name.startswith(base + "/") for base in bases)}
    context, source = Context(lambda: lake.now, "me", lambda step, count: None), Catalog(lake.versions)
    identify.begin(sets, source, "id", MarkSettings("peer", policies), context)
    record = identify.identify(sets, source, "id", context)
    settings = expire.SweepSettings(grace=timedelta(0), is_forced=True, only_named=only_named)
    swept = expire.sweep(sets, "id", source, Stores(), settings, context)
    found = set(before) - set(lake.list_files())
    assert not swept.stopped and not swept.expansion.broken, swept
    assert found == dead, (policies, found - dead, dead - found)
    commits = sum(reference.commits for reference in sets.list_references(record.number))
    versions = sets.count_versions(record.number)[1]
    sets.close()
    return Counter(commits=commits, versions=versions, live=len(live & before.keys()), deleted=len(found))


def run(url: str, catalogs: int, seed: int) -> Counter[str]:
    """So many catalogs, one after another."""
    total: Counter[str] = Counter()
    with NessieClient(url) as client:
        for number in range(catalogs):
            random = Random(seed * 1_000_000 + number)
            lake = PeerLake(client)
            fill(lake, random)
            try:
                total += collect(lake, random)
            except AssertionError as error:
                raise SystemExit(f"catalog {number} of seed {seed}: {error}") from error
            finally:
                lake.close()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add: Any = parser.add_argument
    add("--peer", type=Path, help="the server's program; without it, it is fetched by Maven")
    add("--catalogs", type=int, default=200)
    add("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jar = chosen.peer or fetch_peer(folder)
        with running_peer(jar.absolute(), folder / "peer", {"nessie.version.store.type": "IN_MEMORY"}) as (url, _):
            start = time.monotonic()
            total = run(url, chosen.catalogs, chosen.seed)
            print(
                f"{chosen.catalogs} catalogs in {time.monotonic() - start:.0f} s, as brute force finds: {dict(total)}"
            )


if __name__ == "__main__":
    main()
