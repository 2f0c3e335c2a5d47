"""What Dagster loads: complete, valid, and changed only on purpose."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dagster as dg
import pytest

from assets.checks import all_rules
from assets.runs import READ_AT, Evaluations, evidence_of
from assets.transforms.months import Month
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import NO_ANCESTOR

GOLDEN = Path(__file__).parent / "definitions.json"


def test_definitions_are_loadable() -> None:
    dg.Definitions.validate_loadable(build())


def test_names_are_those_of_the_golden_file() -> None:
    repository = build().get_repository_def()
    graph = repository.asset_graph
    found = {
        "assets": {
            key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
            for key in sorted(graph.get_all_asset_keys())
        },
        "blocking checks": sorted(
            f"{key.asset_key.to_user_string()}:{key.name}"
            for key in graph.asset_check_keys
            if graph.get_check_spec(key).blocking
        ),
        "other checks": sorted(
            f"{key.asset_key.to_user_string()}:{key.name}"
            for key in graph.asset_check_keys
            if not graph.get_check_spec(key).blocking
        ),
        "jobs": sorted(name for name in repository.job_names if not name.startswith("__")),
        "schedules": sorted(schedule.name for schedule in repository.schedule_defs),
        "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
        "steps": sorted(node.name for node in repository.get_job("load_month").nodes),
    }
    text = json.dumps(found, indent=1) + "\n"
    if os.environ.get("NESSIE_OPS_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if this is meant, run the test once with NESSIE_OPS_UPDATE_GOLDEN=1"


def test_every_step_of_the_job_comes_after_the_branch_and_before_publishing() -> None:
    graph = build().get_repository_def().asset_graph
    tables = [key for key in graph.get_all_asset_keys() if len(key.path) == 2]
    assert len(tables) == 9
    for key in tables:
        assert dg.AssetKey("run_branch") in graph.get_ancestor_asset_keys(key)
        assert dg.AssetKey("validated") in graph.get(key).child_keys
    assert graph.get(dg.AssetKey("publish")).parent_keys == {dg.AssetKey("validated")}


def test_no_step_is_retried_within_its_run() -> None:
    job = build().get_repository_def().get_job("load_month")
    assert all(node.definition.retry_policy is None for node in job.nodes)  # a cancelled step would run again


def test_a_blocking_check_that_did_not_run_or_failed_vouches_for_nothing() -> None:
    rules = all_rules(Month(2013, 1))

    def evaluated(failed: str = "", absent: str = "") -> Evaluations:
        return {
            rule.label: dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey(rule.table.name.split(".")),
                check_name=rule.name,
                passed=rule.label != failed,
                metadata={READ_AT: dg.MetadataValue.text(NO_ANCESTOR)},
                blocking=rule.blocking,
            )
            for rule in rules
            if rule.label != absent
        }

    blocking = {rule.label for rule in rules if rule.blocking}
    assert {item.label for item in evidence_of(rules, evaluated())} == blocking
    for label in blocking:
        for found in (evaluated(failed=label), evaluated(absent=label)):
            with pytest.raises(BadRequest, match=f"not passed in this run: {label}"):
                evidence_of(rules, found)
    evidence_of(rules, evaluated(failed="bronze.weather:wind_plausible"))  # warns, and stops nothing
