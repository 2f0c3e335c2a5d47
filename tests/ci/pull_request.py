"""Acts as a pull request: executes what a workflow file has for an event, step by step, with the event's environment.

    python -m tests.ci.pull_request docs/ci/gitlab-ci.yml opened --number 7

The steps run as they stand in the file, `nessie-ops` is the one of this checkout, and the catalog is that of the
environment.  Of the forge there is what the steps ask: `gh`, and GitLab's API for real curl.  A comment becomes the
file `comment.md` of the folder in which they run.  The exit code is that of the first step that failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from tests.ci.forge import EVENTS, Event, Step, read_steps

ROOT = Path(__file__).parents[2]
COMMENT = "comment.md"
STEP_SUMMARY = "step-summary.md"
_TOOLS = {
    "nessie-ops": f'export PYTHONPATH="{ROOT}"\nexec "{sys.executable}" -m nessie_ops "$@"',
    "pip": "true  # what the workflow installs is this checkout",
    "gh": f'for file; do :; done; cp "$file" {COMMENT}  # gh pr comment ... --body-file FILE',
}


class Done(NamedTuple):
    """A step that was executed, with what it printed; steps after one that failed are left out, but for `always`."""

    step: Step
    code: int
    output: str


def act(workflow: Path, event: Event, folder: Path, variables: Mapping[str, str] | None = None) -> list[Done]:
    """Execute what the workflow has for the event, in `folder`."""
    tools = _make_tools(folder / "tools")
    done: list[Done] = []
    with _gitlab_api(event, folder) as api:
        for step in read_steps(workflow, event, {**(variables or {}), "CI_API_V4_URL": api, "GITLAB_TOKEN": "a-token"}):
            if step.always or not any(earlier.code for earlier in done):
                done.append(_execute(step, folder, tools))
    return done


def _make_tools(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in _TOOLS.items():
        path = folder / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)
    return folder


def _execute(step: Step, folder: Path, tools: Path) -> Done:
    bash = shutil.which("bash")
    assert bash is not None
    env = {
        **os.environ,
        **{name: value for name, value in step.env.items() if value},
        "CI": "true",
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }
    if "GITHUB_ACTIONS" in step.env:
        env["GITHUB_STEP_SUMMARY"] = str(folder / STEP_SUMMARY)
    ran = subprocess.run(
        [bash, "-eo", "pipefail", "-c", step.script],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Done(step, ran.returncode, ran.stdout)


@contextmanager
def _gitlab_api(event: Event, folder: Path) -> Iterator[str]:
    """The part of GitLab's API that a merge request's jobs ask: its state, and notes."""
    state = event.what if event.what in ("merged", "closed") else "opened"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(f'{{"iid":{event.number},"author":{{"state":"active"}},"state":"{state}"}}')

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            (folder / COMMENT).write_text(form["body"][0])
            self._answer("{}")

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/api/v4"
        finally:
            server.shutdown()
            thread.join()


def main() -> int:
    """Read the command line, act, and print what the steps printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workflow", type=Path)
    parser.add_argument("event", choices=EVENTS)
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("pull-request"))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    done = act(options.workflow, Event(options.event, options.number), options.folder.absolute(), os.environ)
    for step, code, output in done:
        print(f"-- {step.job}: {step.name} (exit code {code})\n{step.script}\n{output}", flush=True)
    return next((row.code for row in done if row.code), 0)


if __name__ == "__main__":
    sys.exit(main())
