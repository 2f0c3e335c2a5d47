"""Composition root of the `nessie-ops` command: hands the command line what it may not import."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from nessie_ops.cli import build_app, run
from nessie_ops.cli.ci import Commands
from nessie_ops.cli.lazy import Command
from nessie_ops.client import NessieClient


def _serve(*, workers: int, **options: Any) -> None:
    from nessie_ops.server.serve import serve  # here, so that other commands start without a web framework
    from nessie_ops.server.settings import Settings
    from nessie_ops.server.workers import serve_with_workers

    settings = Settings.from_env(**options)
    serve(settings) if workers == 1 else serve_with_workers(settings, workers)


def _run_ui(*, host: str, port: int) -> int:
    from nessie_ops.ui import run_ui

    return run_ui(host=host, port=port)


def _run_demo() -> int:
    from nessie_ops.demo import run_demo
    from nessie_ops.runtime.home import get_home

    return run_demo(get_home())


def _run_month(*, month: str, source: str, resume: str, all_steps: bool, as_json: bool) -> int:
    from nessie_ops.demo.one_month import load_or_resume

    return load_or_resume(month=month, source=source, resume=resume, all_steps=all_steps, as_json=as_json)


@contextmanager
def _open_client(uri: str, store: str) -> Iterator[NessieClient]:
    from nessie_ops.cli.connection import chooses_server, find_store
    from nessie_ops.runtime.home import get_home, warehouse_url
    from nessie_ops.server.embedded import ensure_embedded

    if not chooses_server(uri, store):
        uri = ensure_embedded(find_store(store), warehouse_url(get_home()))
    with NessieClient(uri) as client:
        yield client


def _is_in_use(branch: str) -> bool:
    from nessie_ops.instance import find_instance
    from schedules.endings import is_in_use

    with find_instance() as instance:
        return instance is not None and is_in_use(instance, branch)


def _ci() -> Commands:
    from nessie_ops.ci import actions

    return Commands(actions.up, actions.merge, actions.down, actions.list_all)


def _make_ci() -> Any:
    from nessie_ops.cli.ci import make_ci

    return make_ci(_ci)


def _make_demo() -> Any:
    from nessie_ops.cli.demo import make_demo

    return make_demo(_run_demo)


def _make_run() -> Any:
    from nessie_ops.cli.months import make_run

    return make_run(_run_month)


def _make_sql() -> Any:
    from nessie_ops.cli.sql import make_sql

    return make_sql(_open_client)


def _make_ui() -> Any:
    from nessie_ops.cli.ui import make_ui

    return make_ui(_run_ui)


_COMMANDS = {
    "sql": Command(
        "Carry out SQL statements about branches, tags, merges and contents; without any, in a shell.", _make_sql
    ),
    "ci": Command("Try a change on a branch of its own; merge or drop it.", _make_ci),
    "run": Command("Load a month; show what a run did.", _make_run),
    "ui": Command(
        "Run Dagster's web interface and daemon on this project's workspace.yaml; Ctrl-C stops both.", _make_ui
    ),
    "demo": Command(
        "Load two months on branches, publish them, and see a damaged third refused; 0 only if all is verified.",
        _make_demo,
    ),
}


def make_app() -> typer.Typer:
    """The whole command line."""
    return build_app(_serve, _is_in_use, _open_client, _COMMANDS)


def main() -> None:
    """Run the command line of this process."""
    # The collection's assets use it; whoever types a command can do nothing about it.
    warnings.filterwarnings("ignore", message=r"Parameter `backfill_policy` of function `asset` is currently in beta")
    run(make_app())


if __name__ == "__main__":
    main()
