"""What docs/deploy says works: its jobs collect, its image has all that it imports, and names refer to something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app
from nessie_ops.store.livesets import LiveSets
from resources.collection import DATABASE_VARIABLE
from tests.databases import Databases
from tests.gc.disk import small_lake

APP = make_app()
ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
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


@cache
def help_of(*command: str) -> str:
    """What a command of ours, or a program that Dagster installs, says of its options."""
    if command[0] != "nessie-ops":
        program = str(Path(sys.executable).parent / command[0])
        return subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=True).stdout
    shown = CliRunner().invoke(APP, [*command[1:], "--help"], env={"TERMINAL_WIDTH": "200"})
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def check_command(program: str, words: list[str]) -> None:
    """The program has the subcommand, with all of the options."""
    command = [word for word in words if not word.startswith("-")]
    for word in words[len(command) :]:
        assert word.split("=")[0] in help_of(program, *command), word


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_containers_run_commands_that_exist(name: str, pod: dict[str, Any]) -> None:
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        check_command(container.get("command", ["nessie-ops"])[0], container["args"])


def test_services_run_commands_that_exist() -> None:
    """They all run in tests/dagster/test_deployment.py; their health is looked at by what stands here."""
    for name, service in COMPOSE["services"].items():
        if service["image"] == "nessie-ops:latest" and name != "bucket":
            check_command(service.get("entrypoint", ["nessie-ops"])[0], service["command"])
        checks = service.get("healthcheck", {}).get("test", [])
        if "dagster" in checks:
            check_command("dagster", checks[2:])


def test_services_refer_to_what_is_there() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert {config["source"] for config in service.get("configs", [])} <= set(COMPOSE["configs"])
    made = COMPOSE["configs"]["databases"]["content"]
    databases = set(re.findall(r"@db:5432/(\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert databases == {services["db"]["environment"]["POSTGRES_DB"], *re.findall(r"CREATE DATABASE (\w+);", made)}


def test_settings_that_dagster_reads_are_given() -> None:
    """To the services and to the pods alike; Dagster's driver of PostgreSQL is the one that it can notify with."""
    texts = [(DEPLOY / name).read_text() for name in ("dagster.yaml", "workspace.yaml")]
    wanted = {name for text in texts for name in re.findall(r"env: (\w+)", text)}
    given = COMPOSE["services"]["webserver"]["environment"], secret("nessie-ops-platform")
    for environment in given:
        assert wanted <= set(environment)
        assert environment["DAGSTER_POSTGRES_URL"].startswith("postgresql+psycopg2://")


@pytest.mark.parametrize(("name", "pod"), PODS)
def test_pods_refer_to_what_is_there(name: str, pod: dict[str, Any]) -> None:
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    claims = [volume.get("persistentVolumeClaim") for volume in pod.get("volumes", [])]
    assert {claim["claimName"] for claim in claims if claim} <= named("PersistentVolumeClaim")
    maps = {volume["configMap"]["name"] for volume in pod.get("volumes", []) if "configMap" in volume}
    made = re.findall(r"kubectl create configmap (\S+)", (DEPLOY / "kubernetes" / name).read_text())
    assert maps <= set(made)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
        assert {source["secretRef"]["name"] for source in container["envFrom"]} <= named("Secret")


def secret(name: str) -> dict[str, str]:
    found = [found for path in MANIFESTS for found in objects(path) if found["kind"] == "Secret"]
    [texts] = [each["stringData"] for each in found if each["metadata"]["name"] == name]
    return dict(texts)


def settings() -> dict[str, str]:
    return secret("nessie-ops")


def run_pod(name: str, folder: Path, environment: dict[str, str]) -> str:
    """What the containers of a manifest print, one after the other, with `folder` as their volume."""
    output = ""
    for pod in [pod for found, pod in PODS if found == name]:
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            words = [word.replace("/data", str(folder)) for word in container["args"]]
            done = CliRunner().invoke(APP, words, env=environment)
            assert done.exit_code == 0, (done.output, done.exception)
            output += done.stdout
    return output


def test_the_jobs_find_and_delete(tmp_path: Path, postgresql_databases: Databases) -> None:
    """With the variables of the secret, whose database of live sets is PostgreSQL."""
    with postgresql_databases.database() as url, small_lake(tmp_path) as lake:
        given, server = settings(), make_url(url)
        lake.write(f"{lake.root}/b/data/orphan.parquet")
        os.utime(lake.folder / "b/data/orphan.parquet", (0, 0))
        before = set(lake.list_files())
        address = f"{server.host or ''}:{server.port}" if server.port else server.host or "localhost"
        given |= {
            "NESSIE_OPS_STORE": lake.store,
            "NESSIE_GC_JDBC_URL": f"jdbc:postgresql://{address}/{server.database}",
            "NESSIE_GC_JDBC_USER": server.username or "",
            "NESSIE_GC_JDBC_PASSWORD": server.password or "",
            "NESSIE_OPS_HOME": str(tmp_path),
        }
        assert set(settings()) <= set(given) and settings()[DATABASE_VARIABLE]
        log = run_pod("gc-find-job.yaml", tmp_path, given)
        [id] = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", log))
        assert set(lake.list_files()) == before
        [variable] = [each["name"] for name, pod in PODS if name == "gc-delete-job.yaml" for each in _own(pod)]
        run_pod("gc-delete-job.yaml", tmp_path, given | {variable: id})
        orphans = {f"{lake.root}/a/data/orphan.parquet", f"{lake.root}/b/data/orphan.parquet"}
        assert before - set(lake.list_files()) == orphans
        run_pod("gc-cronjob.yaml", tmp_path, given)
        assert before - set(lake.list_files()) == orphans
        sets = LiveSets.open(url)
        assert len(sets.list_live_sets()) == 2
        sets.close()


def _own(pod: dict[str, Any]) -> list[dict[str, str]]:
    return [variable for container in pod["containers"] for variable in container.get("env", [])]


def test_the_image_has_all_that_it_imports(tmp_path: Path) -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name in (name for line in copied for name in line.split()):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    assert (tmp_path / "requirements.txt").exists()
    look = "import nessie_ops.definitions, nessie_ops.__main__, nessie_ops.ui as ui; print(ui.WORKSPACE)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", look], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(tmp_path / "workspace.yaml"), done.stderr[-2000:]
    assert (tmp_path / "workspace.yaml").exists()
