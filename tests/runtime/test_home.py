"""The home and the cache: where they are, and what a new home holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import DagsterInstance

from nessie_ops.errors import MachineNotReady
from nessie_ops.runtime.home import create_home, dagster_home, get_cache, get_home, store_url, warehouse_url


def test_defaults_are_in_the_persons_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NESSIE_OPS_HOME")
    monkeypatch.setenv("NESSIE_OPS_CACHE", "")
    assert get_home() == tmp_path / ".nessie_ops"
    assert get_cache() == tmp_path / ".cache" / "nessie_ops"


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NESSIE_OPS_HOME", "data")
    assert store_url(get_home()) == f"sqlite:///{tmp_path}/data/catalog.db"
    assert warehouse_url(get_home()) == f"file://{tmp_path}/data/warehouse"


def test_steps_upwards_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "in")
    monkeypatch.chdir(tmp_path / "real")
    for given in ("../real/data", f"{tmp_path}/link/../data"):
        monkeypatch.setenv("NESSIE_OPS_HOME", given)
        assert get_home() == tmp_path / "real" / "data"


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a\\b"])
def test_a_path_that_no_url_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NESSIE_OPS_HOME", f"/tmp/{name}")
    with pytest.raises(MachineNotReady, match="NESSIE_OPS_HOME"):
        get_home()


def test_dagster_accepts_the_settings_of_a_new_home(tmp_path: Path) -> None:
    folder = dagster_home(create_home(tmp_path / "home"))
    with DagsterInstance.from_config(str(folder)) as instance:
        assert not instance.telemetry_enabled
        assert instance.run_retries_enabled
        assert instance.get_settings("run_retries") == {
            "enabled": True,
            "max_retries": 0,
            "retry_on_asset_or_op_failure": False,
        }
        assert instance.run_monitoring_enabled


def test_settings_that_a_person_changed_stay(tmp_path: Path) -> None:
    settings = dagster_home(create_home(tmp_path)) / "dagster.yaml"
    settings.write_text("telemetry: {enabled: false}\n")
    create_home(tmp_path)
    assert settings.read_text() == "telemetry: {enabled: false}\n"


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineNotReady, match=f"cannot create {tmp_path}/file"):
        create_home(tmp_path / "file")
