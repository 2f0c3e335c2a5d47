"""kill -9 of writing processes: every acknowledged commit is there, and the branch is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.objects import StoredNodes, find_commit, root_of

ROOT = Path(__file__).parents[2]


def test_writers_killed_at_any_moment_lose_nothing_acknowledged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    acknowledged: dict[str, list[str]] = {}
    for round_ in range(4):
        names = [f"w{round_}a", f"w{round_}b"]
        command = [sys.executable, "-m", "tests.crash.writer", url]
        writers = [subprocess.Popen([*command, n], stdout=subprocess.PIPE, text=True, cwd=ROOT) for n in names]
        for writer, name in zip(writers, names):
            assert writer.stdout
            acknowledged[name] = [writer.stdout.readline() for _ in range(5 + 7 * round_)]
        for writer, name in zip(writers, names):
            writer.kill()
            rest = writer.communicate()[0].splitlines(keepends=True)
            acknowledged[name] += [line for line in rest if line.endswith("\n")]
    versions = VersionStore.open(url)
    head = versions.get_reference("main").hash
    log = {entry.commit_meta.hash: entry.commit_meta.message for entry in versions.list_log(head, limit=100_000)}
    entries = {str(entry.name) for entry in versions.list_entries(head, with_content=True, limit=100_000)}
    for name, lines in acknowledged.items():
        for n, hash in (line.split() for line in lines):
            assert log[hash] == f"{name} {n}"  # type: ignore[index]
            assert f"{name}-{n}" in entries
    assert len(log) == len(entries), "one commit per table"
    with versions._store.write() as tx:
        nodes, root = StoredNodes(tx), root_of(find_commit(tx, head))
        assert tree.apply(nodes, tree.EMPTY_ID, dict(tree.scan(nodes, root))) == root
    versions.close()
