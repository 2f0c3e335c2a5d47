"""The workflow files of docs/ci, executed as a pull request would have them executed, against a real home."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from tests.ci.conftest import Ran
from tests.ci.forge import Event, read_steps
from tests.ci.pull_request import COMMENT, STEP_SUMMARY, act

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs/ci"
GITHUB, GITLAB = DOCS / "github-actions.yml", DOCS / "gitlab-ci.yml"


def commands(workflow: Path, what: str) -> list[str]:
    """What an event executes of nessie-ops, as the words up to the name."""
    steps = read_steps(workflow, Event(what, 7), {})
    lines = [line for step in steps for line in step.script.splitlines()]
    return [line[line.index("nessie-ops") :].split()[2] for line in lines if "nessie-ops ci" in line]


@pytest.mark.parametrize(
    ("workflow", "what", "expected"),
    [
        (GITHUB, "opened", ["up"]),
        (GITHUB, "updated", ["up"]),
        (GITHUB, "merged", ["merge", "down"]),
        (GITHUB, "closed", ["down"]),
        (GITLAB, "opened", ["up"]),
        (GITLAB, "updated", ["up"]),
        (GITLAB, "merged", ["merge", "down"]),
        (GITLAB, "closed", ["merge", "down"]),  # its script asks which of the two it was
    ],
)
def test_events_start_what_they_are_about(workflow: Path, what: str, expected: list[str]) -> None:
    assert commands(workflow, what) == expected


def test_a_pull_request_on_github(
    january: Sequence[Ran], client: NessieClient, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NESSIE_OPS_SOURCE", str(source))
    before = client.get_reference("main").hash
    opened = act(GITHUB, Event("opened", 7), tmp_path)
    assert [row.code for row in opened] == [0, 0, 0], opened
    assert "gold__airport_hourly" in opened[1].output, "it tells of its steps"
    text = (tmp_path / COMMENT).read_text()
    assert "ci/pr-7: passed" in text and "gold.airport_hourly" in text
    assert (tmp_path / STEP_SUMMARY).read_text() == text
    assert client.get_reference("main").hash == before

    merged = act(GITHUB, Event("merged", 7), tmp_path)
    assert [row.code for row in merged] == [0, 0, 0], merged
    head = client.list_log(client.get_reference("main").hash, limit=2)
    assert head[0].commit_meta.message == "Merge ci/pr-7"
    assert head[1].commit_meta.hash == before
    assert client.list_references(prefix="ci/pr-7") == []


def test_a_merge_request_on_gitlab(
    january: Sequence[Ran],
    client: NessieClient,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NESSIE_OPS_SOURCE", str(source))
    opened = act(GITLAB, Event("opened", 8), tmp_path)
    assert [row.code for row in opened] == [0, 0], opened
    assert "ci/mr-8: passed" in (tmp_path / COMMENT).read_text()
    before = client.get_reference("main").hash

    merged = act(GITLAB, Event("merged", 8), tmp_path)
    assert [row.code for row in merged] == [0], merged
    assert client.list_log(client.get_reference("main").hash, limit=2)[1].commit_meta.hash == before
    assert client.list_references(prefix="ci/mr-8") == []


@pytest.mark.parametrize(("workflow", "name"), [(GITHUB, "pr-9"), (GITLAB, "mr-9")])
def test_one_that_is_closed_leaves_nothing(
    workflow: Path, name: str, january: Sequence[Ran], client: NessieClient, tmp_path: Path
) -> None:
    main = client.get_reference("main").hash
    properties = {"owner": "nessie-ops", "expires_at": "2100-01-01T00:00:00+00:00", "target": "main"}
    client.create_reference(ReferenceType.BRANCH, f"ci/{name}", main, properties=properties)
    done = act(workflow, Event("closed", 9), tmp_path)
    assert not any(row.code for row in done), done
    assert client.list_references(prefix=f"ci/{name}") == []
    assert client.get_reference("main").hash == main
