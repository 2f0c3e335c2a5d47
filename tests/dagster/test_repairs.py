"""Jobs for people: discarding a run, undoing what it published, opening a state of the past; without Spark."""

from __future__ import annotations

import dagster as dg
import pytest

from assets.merge_requests import ask_to_merge
from assets.run_branches import branch_name, ensure_namespaces, open_branch, publish, quarantine, validate
from assets.transforms.tables import NAMESPACES
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import CheckResult, CommitHash, MergeRequestState, NewCommit, Put
from schedules.repairs import open_read_only
from schedules.rerunning import launch_reruns, plan
from tests.versioning.helpers import key, table


def write(client: NessieClient, branch: str, path: str, n: int) -> CommitHash:
    at = client.get_reference(branch).hash
    known = client.get_contents(at, [key(path)]).get(key(path))
    puts = [Put(key(path), table(n, str(known.id) if known else None))]
    return client.commit(branch, at, NewCommit(message="m"), puts).target_branch.hash


def load(client: NessieClient, run_id: str, path: str, n: int) -> CommitHash:
    """What a run does that loads one table; main's new commit."""
    name = branch_name(run_id)
    open_branch(client, "main", name, ["bronze"])
    write(client, name, path, n)
    validate(client, name, [])
    meta = NewCommit(message=f"Load {n}", properties={"nessie_ops.run_id": (run_id,)})
    return publish(client, "main", name, meta).commit


def run(instance: dg.DagsterInstance, job: str, op: str, **config: str) -> dg.ExecuteInProcessResult:
    found = build().resolve_job_def(job)
    return found.execute_in_process(
        run_config={"ops": {op: {"config": config}}}, instance=instance, raise_on_error=False
    )


def test_what_a_run_published_is_undone_by_a_new_commit(client: NessieClient, instance: dg.DagsterInstance) -> None:
    load(client, "r1", "bronze.a", 1)
    before = client.get_contents(client.get_reference("main").hash, [key("bronze.a")])
    load(client, "r2", "bronze.a", 2)
    load(client, "r3", "bronze.b", 3)
    config = {"run_id": "r2", "by": "ann", "reason": "wrong delivery"}
    assert run(instance, "revert_run", "revert_published", **config).success
    head = client.get_reference("main").hash
    assert client.get_contents(head, [key("bronze.a")]) == before
    assert key("bronze.b") in client.get_contents(head, [key("bronze.b")]), "what came later stays"
    meta = client.get_commit(head)
    assert meta.message == "Revert run r2: Load 2\n\nwrong delivery" and meta.authors == ("ann",)
    assert run(instance, "revert_run", "revert_published", **config).success
    assert client.get_reference("main").hash == head, "once"


def test_what_later_commits_changed_is_not_undone(client: NessieClient, instance: dg.DagsterInstance) -> None:
    load(client, "s1", "bronze.c", 1)
    load(client, "s2", "bronze.c", 2)
    head = client.get_reference("main").hash
    result = run(instance, "revert_run", "revert_published", run_id="s1")
    [failure] = result.get_step_failure_events()
    assert failure.step_failure_data.error and "bronze.c" in str(failure.step_failure_data.error.to_string())
    assert client.get_reference("main").hash == head
    assert not run(instance, "revert_run", "revert_published", run_id="unknown").success


def test_what_is_brought_back_can_be_undone_again(client: NessieClient, instance: dg.DagsterInstance) -> None:
    load(client, "v1", "bronze.f", 1)
    published = load(client, "v2", "bronze.f", 2)
    assert run(instance, "revert_run", "revert_published", run_id="v2").success
    undone = client.get_reference("main").hash
    assert client.get_commit(undone).all_properties["nessie_ops.reverted_commit"] == (published,)
    client.revert("main", None, undone)  # a person, who has looked at it again
    assert run(instance, "revert_run", "revert_published", run_id="v2").success
    first, last = (client.get_contents(at, [key("bronze.f")]) for at in (undone, client.get_reference("main").hash))
    assert first == last
    load(client, "v3", "bronze.f", 3)
    assert run(instance, "revert_run", "revert_published", run_id="v2").success, "it is undone, whatever came later"


def test_a_run_that_still_writes_is_not_discarded(client: NessieClient, instance: dg.DagsterInstance) -> None:
    job = build().resolve_job_def("load_month")
    live = instance.create_run_for_job(job, tags={"dagster/partition": "2013-01"}, status=dg.DagsterRunStatus.STARTED)
    name = branch_name(live.run_id)
    open_branch(client, "main", name, ["bronze"])
    result = run(instance, "discard_run", "discard_branch", run_id=live.run_id)
    [failure] = result.get_step_failure_events()
    assert "terminate it first" in str(failure.step_failure_data.error)
    assert client.get_reference(name).name == name
    instance.report_run_canceled(live)
    assert run(instance, "discard_run", "discard_branch", run_id=live.run_id).success
    assert client.list_references(prefix=name) == []


@pytest.mark.parametrize(("at", "name"), [("", "x"), ("main*yesterday", "x"), ("nothing", "x"), ("main", "a b")])
def test_states_that_cannot_be_opened_are_refused(client: NessieClient, at: str, name: str) -> None:
    with pytest.raises((BadRequest, ReferenceNotFound)):
        open_read_only(client, at, name)


def test_a_run_is_discarded(client: NessieClient, instance: dg.DagsterInstance) -> None:
    name = branch_name("t1")
    open_branch(client, "main", name, ["bronze"])
    write(client, name, "bronze.d", 1)
    validate(client, name, [])
    found = [CheckResult(name="rows", passed=True)]
    asked = ask_to_merge(client, "main", name, NewCommit(message="Load"), found, ["rows"])
    assert run(instance, "discard_run", "discard_branch", run_id="t1", reason="not wanted").success
    with pytest.raises(ReferenceNotFound):
        client.get_reference(name)
    closed = client.get_merge_request(asked.number)
    assert (closed.state, closed.outcome) == (MergeRequestState.CLOSED, "not wanted")
    assert run(instance, "discard_run", "discard_branch", run_id="t1").success, "once more does nothing"


def test_a_state_of_the_past_is_read_only_and_runs_begin_there(
    client: NessieClient, instance: dg.DagsterInstance
) -> None:
    before = client.get_reference("main").hash
    load(client, "u1", "bronze.e", 1)
    assert run(instance, "open_past", "open_state", at=before, name="before").success
    tag = client.get_reference("read/before")
    assert tag.hash == before
    with pytest.raises((BadRequest, ReferenceConflict)):
        write(client, "read/before", "bronze.e", 2)
    assert run(instance, "open_past", "open_state", at=before, name="before").success
    assert not run(instance, "open_past", "open_state", at="main", name="before").success
    opened = open_branch(client, "main", branch_name("u2"), ["bronze"], base="read/before")
    assert (opened.head, opened.base) == (before, before)
    client.delete_reference("read/before", before)
    assert client.list_references(prefix="read/") == []


# A sensor looks its job up in the repository that it belongs to, which a test has to give.
given_repository = pytest.mark.filterwarnings("ignore:Parameter `repository_def`")


def month_run(instance: dg.DagsterInstance, **tags: str) -> dg.DagsterRun:
    job = build().resolve_job_def("load_month")
    config = {"ops": {"publish": {"config": {"publish": "sensor"}}}}
    return instance.create_run_for_job(job, run_config=config, tags={"dagster/partition": "2013-01", **tags})


def asked(instance: dg.DagsterInstance, **config: str) -> dg.RunRequest | dg.SkipReason | None:
    """What the sensor launches after the job `rerun_month` has succeeded; None when the job fails."""
    result = run(instance, "rerun_month", "prepare_rerun", **config)
    if not result.success:
        return None
    context = dg.build_run_status_sensor_context(
        sensor_name="launch_reruns",
        dagster_instance=instance,
        dagster_run=instance.get_run_by_id(result.run_id),
        dagster_event=result.get_run_success_event(),
        repository_def=build().get_repository_def(),
    )
    found = launch_reruns(context)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


@given_repository
def test_a_run_is_executed_again_once_on_its_branch(client: NessieClient, instance: dg.DagsterInstance) -> None:
    first = month_run(instance)
    name = branch_name(first.run_id)
    open_branch(client, "main", name, ["bronze"])
    write(client, name, "bronze.z", 1)
    assert asked(instance, run_id=first.run_id) is None, "it is under way"
    instance.report_run_failed(first, "ended")
    again = month_run(instance, **{"dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id})
    instance.report_run_canceled(again, message="stopped")
    assert asked(instance, run_id="nobody") is None
    assert asked(instance, run_id=first.run_id, base="main") is None, "base goes with new_main"

    found = asked(instance, run_id=first.run_id, mode="all_steps")
    assert isinstance(found, dg.RunRequest) and found.asset_selection is None
    assert (found.job_name, found.partition_key, found.run_config) == ("load_month", "2013-01", first.run_config)
    tags = {"dagster/root_run_id": first.run_id, "dagster/parent_run_id": again.run_id, "nessie/branch": name}
    assert tags.items() <= found.tags.items(), "after the newest of the runs on that branch"
    resumed = asked(instance, run_id=first.run_id)
    assert isinstance(resumed, dg.RunRequest) and resumed.run_key != found.run_key
    job = build().resolve_job_def("load_month")
    with pytest.raises(BadRequest, match=r"all steps of run .* have succeeded"):
        plan(job, again, {node.name for node in job.nodes}, "key")  # else an empty selection would be all of it


@given_repository
def test_a_run_begins_anew_on_the_new_main_or_a_state_of_the_past(
    client: NessieClient, instance: dg.DagsterInstance
) -> None:
    base = ensure_namespaces(client, "main", NAMESPACES)
    first = month_run(instance)
    name = branch_name(first.run_id)
    open_branch(client, "main", name, ["bronze"])
    write(client, name, "bronze.y", 1)
    quarantine(client, name, "checks failed")
    instance.report_run_failed(first, "ended")
    write(client, "main", "bronze.x", 1)
    head = client.get_reference("main").hash
    for config, wanted in (({}, head), ({"base": base}, base)):
        found = asked(instance, run_id=first.run_id, mode="new_main", **config)
        assert isinstance(found, dg.RunRequest) and found.asset_selection is None
        branch = client.get_reference(name)
        assert (branch.hash, branch.properties["base_hash"], branch.properties["rebases"]) == (wanted, wanted, "0")
        assert "quarantined" not in branch.properties
    client.delete_reference(name, base)
    assert asked(instance, run_id=first.run_id, mode="new_main") is not None
    assert client.get_reference(name).hash == head, "a branch that is gone is opened again"
