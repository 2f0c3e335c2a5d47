"""Ids and bytes that may never change, and a database of the released format that must stay readable.

`python -m tests.golden.make` writes the files anew; it is run once per format, never to mend a failure.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nessie_ops.store import upgrade_store
from nessie_ops.versioning import VersionStore
from tests.golden.make import DATABASES, EXPECTED, describe, make


def test_ids_of_the_same_history_are_the_same(tmp_path: Path) -> None:
    made = make(f"sqlite:///{tmp_path}/new.db")
    assert describe(made) == json.loads(EXPECTED.read_text())
    made.close()


@pytest.mark.parametrize("database", DATABASES, ids=lambda path: path.stem)
def test_a_released_database_is_readable_and_writable(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "old.db"
    shutil.copy(database, copy)
    upgrade_store(f"sqlite:///{copy}")
    versions = VersionStore.open(f"sqlite:///{copy}")
    assert describe(versions) == json.loads(EXPECTED.read_text())
    main = versions.get_reference("main")
    assert versions.assign_reference("main", main.hash, versions.resolve("main~1").hash).hash != main.hash
    versions.close()
