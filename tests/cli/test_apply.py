"""Reverts and transplants on the command line, over a server and over a local database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from nessie_ops.cli import build_app
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.model import ReferenceType
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import commit, content_id, delete, head, key, put, table, update

Run = Callable[..., Result]


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionStore]:
    """A main that created t and changed it, and a `f` with one table more."""
    opened = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    update(opened, "t", 1)
    update(opened, "t", 2)
    opened.create_reference(ReferenceType.BRANCH, "f", head(opened))
    update(opened, "new", 1, "f")
    yield opened
    opened.close()


@pytest.fixture(params=["server", "database"])
def cli(request: pytest.FixtureRequest, tmp_path: Path, versions: VersionStore) -> Iterator[Run]:
    store = f"sqlite:///{tmp_path}/catalog.db"
    app = build_app(lambda **_: None)
    with running_server(store) if request.param == "server" else nullcontext("") as uri:

        def invoke(*words: str, ok: bool = True) -> Result:
            result = CliRunner().invoke(app, [*words, *(["--uri", uri] if uri else ["--store", store])])
            assert (result.exit_code == 0) is ok, result.output
            return result

        yield invoke


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def state(versions: VersionStore) -> dict[str, object]:
    entries = versions.list_entries(head(versions), with_content=True)
    return {str(entry.name): getattr(entry.content, "snapshot_id", None) for entry in entries}


def test_revert_a_commit(cli: Run, versions: VersionStore) -> None:
    assert cli("revert", "main", "--dry-run").stdout == "t\nnothing written: a dry run on main\n"
    assert state(versions) == {"t": 2}
    done = as_json(cli("revert", "main", "--json", "-m", "oops", "--author", "ann"))
    assert done["wasApplied"] is True and done["resultantTargetHash"] == head(versions)
    assert state(versions) == {"t": 1}
    meta = versions.get_commit(head(versions))
    assert (meta.message, meta.authors) == ("oops", ("ann",))
    refused = cli("revert", "main~1", ok=False)
    assert refused.exit_code == 3 and "'t'" in refused.stderr and "t  " in refused.stdout


def test_revert_keys(cli: Run, versions: VersionStore) -> None:
    id = content_id(versions, "t")
    commit(versions, delete("t"), put("u", table(1)))
    assert cli("revert", "-k", "t", "--to", "main~1").stdout.startswith("t\nreverted on main, now at ")
    assert (content_id(versions, "t"), state(versions)) == (id, {"t": 2, "u": 1})
    words = ("revert", "--key", "t", "--key", "u", "--to", "f~1", "-b", "main")
    assert isinstance(cli(*words, ok=False).exception, BadRequest)
    cli(*words, "--allow-deletes")
    assert state(versions) == {"t": 2}
    assert cli(*words, "--allow-deletes").stdout == "t\nu\nnothing to do on main\n"


@pytest.mark.parametrize("words", [(), ("main", "-k", "t", "--to", "main"), ("-k", "t"), ("main", "--to", "main")])
def test_revert_is_told_one_thing(cli: Run, words: tuple[str, ...]) -> None:
    assert isinstance(cli("revert", *words, ok=False).exception, BadRequest)


def test_transplant(cli: Run, versions: VersionStore) -> None:
    assert cli("transplant", "f", "--dry-run").stdout == "new\nnothing written: a dry run on main\n"
    assert cli("transplant", "f", "--from", "f", "-m", "mine").stdout.startswith("new\ntransplanted to main, now at ")
    assert state(versions) == {"t": 2, "new": 1}
    assert versions.get_commit(head(versions)).message == "mine"
    assert as_json(cli("transplant", "f", "--json"))["wasApplied"] is False
    assert versions.get_contents(head(versions), [key("new")]) == versions.get_contents(
        head(versions, "f"), [key("new")]
    )
    versions.update_properties("f", {"quarantined": "nulls"})
    assert isinstance(cli("transplant", "f", ok=False).exception, NessieOpsError)
