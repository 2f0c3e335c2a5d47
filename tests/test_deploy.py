"""What docs/deploy runs exists: commands with their options, files that are copied, names that are referred to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app

APP = make_app()
ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def objects(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def pod_of(found: dict[str, Any]) -> dict[str, Any] | None:
    """The pod that an object makes, if any."""
    spec = found.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    pod: dict[str, Any] | None = spec.get("template", {}).get("spec")
    return pod


PODS = [(path.name, pod) for path in MANIFESTS for found in objects(path) if (pod := pod_of(found))]


def named(kind: str) -> set[str]:
    return {found["metadata"]["name"] for path in MANIFESTS for found in objects(path) if found["kind"] == kind}


def test_there_are_jobs() -> None:
    kinds = [found["kind"] for path in MANIFESTS for found in objects(path)]
    assert kinds.count("Job") == 2
    assert kinds.count("CronJob") == 1


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_containers_run_commands_that_exist(name: str, pod: dict[str, Any]) -> None:
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        words = container["args"]
        command = [word for word in words if not word.startswith("-")]
        shown = CliRunner().invoke(APP, [*command, "--help"], env={"TERMINAL_WIDTH": "200"})
        assert shown.exit_code == 0, shown.output
        for word in words[len(command) :]:
            assert word.split("=")[0] in shown.stdout, word


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_pods_refer_to_what_is_there(name: str, pod: dict[str, Any]) -> None:
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]} <= named("PersistentVolumeClaim")
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert {source["secretRef"]["name"] for source in container["envFrom"]} <= named("Secret")


def test_the_image_copies_what_exists() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert {"requirements.txt", "nessie_ops", "assets", "resources", "schedules"} <= set(names)
    assert [name for name in names if not (ROOT / name).exists()] == []
