"""Addresses that have a user and password: what is shown, kept and raised has neither."""

from __future__ import annotations

import pytest

from assets.said import run_url
from nessie_ops.client import NessieClient, without_user
from nessie_ops.errors import StoreUnavailable
from resources.catalog import CatalogResource


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ci:s%40cret@host:1/x@y", "https://host:1/x@y"),
        ("http://ci:a@b@host", "http://host"),
        ("http://host/x@y", "http://host/x@y"),
        ("host", "host"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_user(url) == shown
    monkeypatch.setenv("NESSIE_OPS_DAGSTER_URL", url)
    if "://" in url:
        assert run_url("7") == f"{shown}/runs/7"
        assert CatalogResource(uri=url).state_url("abc").startswith(f"{shown}/api/v2/trees/@abc/")


def test_messages_name_no_password() -> None:
    with NessieClient("http://ci:secret@127.0.0.1:9") as client, pytest.raises(StoreUnavailable) as error:
        client.get_reference("main")
    assert "secret" not in error.value.message and "http://127.0.0.1:9" in error.value.message
