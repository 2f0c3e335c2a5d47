"""`store info` tells what a store is and how much it holds, on every database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.store import Store, tables
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.info import get_store_info
from tests.store.helpers import fill
from tests.versioning.helpers import head


def test_what_it_tells(store: Store, versions: VersionStore) -> None:
    empty = get_store_info(store)
    assert empty.references == {"BRANCH": 1} and empty.oldest_commit is None and empty.tables["node"].rows == 0
    fill(versions)
    found = get_store_info(store)
    assert (found.format, found.default_branch) == (tables.FORMAT, "main")
    assert found.references == {"BRANCH": 2, "TAG": 1}
    assert found.oldest_commit and found.oldest_commit.hash == versions.get_reference("v1").hash
    assert found.newest_commit and found.newest_commit.hash == head(versions)
    assert found.created_at == versions.get_info().created_at
    for name, size in found.tables.items():
        assert size.bytes is not None and (name != "node" or size.bytes > 10_000), name
    assert {name: size.rows for name, size in found.tables.items()} == {
        **{name: found.tables[name].rows for name in ("node", "content", "setting")},
        "commit": 13,
        "reference": 3,
        "reference_log": 16,
        "counter": 1,
        "subscriber": 0,
        "dead_letter": 0,
        "idempotency_key": 0,
        "merge_request": 0,
        "catalog_transaction": 0,
        "catalog_read": 0,
    }
    assert (found.cache_bytes == store.cache.capacity and "nessie" in found.database) or "sqlite" in found.database


def test_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    fill(VersionStore.open(url))
    app = build_app(lambda **options: None)

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["store", "info", "--store", url, *words])

    text = invoke().stdout
    assert f"database        {url}\n" in text and "references      2 BRANCH, 1 TAG\n" in text and "\nnode " in text
    assert json.loads(invoke("--json").stdout)["tables"]["commit"]["rows"] == 13


def test_a_password_is_not_shown(postgresql_url: str) -> None:
    url = make_url(postgresql_url).set(password="hidden").render_as_string(hide_password=False)
    store = Store.open(url)
    assert "hidden" not in get_store_info(store).database
    store.close()
