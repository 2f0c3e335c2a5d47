"""A small catalog, and the whole command line on it: through a server, and on the database itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nessie_ops.__main__ import make_app
from nessie_ops.cli.exits import code_of
from nessie_ops.errors import NessieOpsError
from nessie_ops.model import ReferenceType
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import commit, head, namespace, put, table

Invoke = Callable[..., Result]
"""Runs a command, which must end with the exit code `code`; the answer."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[VersionStore]:
    """`main` with n, n.t and u, of two commits; `dev`, a commit ahead with n.d; `v1`, at the first commit."""
    with_it = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    Transactions(with_it)  # whoever reads a transaction's branch must say what it reads
    commit(with_it, put("n", namespace("n")), put("n.t", table(1)))
    with_it.create_reference(ReferenceType.TAG, "v1", head(with_it))
    commit(with_it, put("u", table(2)))
    with_it.create_reference(ReferenceType.BRANCH, "dev", head(with_it))
    commit(with_it, put("n.d", table(3)), branch="dev")
    yield with_it
    with_it.close()


@pytest.fixture(params=["server", "database"])
def on(request: pytest.FixtureRequest, tmp_path: Path, small: VersionStore) -> Iterator[Invoke]:
    """The command line on the catalog `small`."""
    store, app = f"sqlite:///{tmp_path}/catalog.db", make_app()
    warehouse = f"file://{tmp_path}/wh"
    with running_server(store, warehouse) if request.param == "server" else nullcontext("") as uri:
        where = ("--uri", uri) if uri else ("--store", store)

        def invoke(*words: str, code: int = 0) -> Result:
            result = CliRunner().invoke(app, [*words, *where])
            error = result.exception
            found = code_of(error, words[0]) if isinstance(error, NessieOpsError) else result.exit_code
            assert found == code, (result.output, error)
            return result

        yield invoke
