"""The forge's side of a pull request: what GitHub's and GitLab's workflow files are read as, and their expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EVENTS = ("opened", "updated", "merged", "closed")
_INSERT = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Step(NamedTuple):
    """A piece of shell of a workflow; `always`: also after one that failed."""

    job: str
    name: str
    script: str
    env: Mapping[str, str]
    always: bool = False


class Event(NamedTuple):
    """What happened to a pull request, and to which."""

    what: str
    number: int
    actor: str = "ann"


def read_steps(workflow: Path, event: Event, variables: Mapping[str, str]) -> list[Step]:
    """What the forge executes for the event, in order; `variables` are those of the project."""
    document = yaml.safe_load(workflow.read_text())
    read: Callable[[Any, Event, Mapping[str, str]], list[Step]] = _github if "jobs" in document else _gitlab
    return read(document, event, variables)


# -- GitHub -----------------------------------------------------------------------------------


def _github(document: Any, event: Event, variables: Mapping[str, str]) -> list[Step]:
    action = {"opened": "opened", "updated": "synchronize"}.get(event.what, "closed")
    triggers = document[True]["pull_request"]["types"]  # YAML 1.1 reads the key `on` as true
    assert action in triggers, f"a pull request that is {action} starts nothing"
    context = {
        "github.event.action": action,
        "github.event.number": event.number,
        "github.event.pull_request.merged": event.what == "merged",
        "github.actor": event.actor,
        "github.token": "a-token",
        **{f"vars.{name}": value for name, value in variables.items()},
    }
    shared = _inserted(document.get("env", {}), context)
    found = []
    for name, job in document["jobs"].items():
        if evaluate(job["if"], context):
            for step in job["steps"]:
                if "run" in step:
                    env = shared | _inserted(step.get("env", {}), context) | {"GITHUB_ACTIONS": "true"}
                    always = bool(step.get("if")) and bool(evaluate(step["if"], context))
                    found.append(Step(name, step["name"], _insert(step["run"], context), env, always))
    return found


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression made of names, texts, booleans, ==, !=, && and ||, as GitHub would find it."""
    for word, combine in (("||", any), ("&&", all)):
        parts = text.split(word)
        if len(parts) > 1:
            return combine(evaluate(part, context) for part in parts)
    for word, expected in (("==", True), ("!=", False)):
        if word in text:
            one, other = (evaluate(part, context) for part in text.split(word))
            return (one == other) is expected
    text = text.strip()
    literals = {"true": True, "false": False, "always()": True}
    if text in literals:
        return literals[text]
    if text.startswith("'"):
        return text.strip("'")
    assert text in context or text.startswith("vars."), f"{text}: not known here; teach forge.py what it is"
    return context.get(text, "")


def _insert(text: str, context: Mapping[str, Any]) -> str:
    return _INSERT.sub(lambda match: str(evaluate(match[1], context)), text)


def _inserted(values: Mapping[str, str], context: Mapping[str, Any]) -> dict[str, str]:
    return {name: _insert(str(value), context) for name, value in values.items()}


# -- GitLab -----------------------------------------------------------------------------------


def _gitlab(document: Any, event: Event, variables: Mapping[str, str]) -> list[Step]:
    given = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_IID": str(event.number),
        "CI_PROJECT_ID": "5",
        "GITLAB_USER_LOGIN": event.actor,
        **variables,
    }
    jobs = {
        name: _extended(document, job) for name, job in document.items() if isinstance(job, dict) and "script" in job
    }
    started = {name: job for name, job in jobs.items() if _starts(job, given)}
    if event.what in ("merged", "closed"):
        started = {job["environment"]["on_stop"]: jobs[job["environment"]["on_stop"]] for job in started.values()}
    found = []
    for name, job in started.items():
        env = _expanded(given, job.get("variables", {}))
        found.append(Step(name, "script", "\n".join(job["script"]), env))
        if "after_script" in job:
            found.append(Step(name, "after_script", "\n".join(job["after_script"]), env, always=True))
    return found


def _expanded(given: Mapping[str, str], further: Mapping[str, object]) -> dict[str, str]:
    """The variables with those of a job, which may name others."""
    env = dict(given)
    for name, value in further.items():
        env[name] = _VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), str(value))
    return env


def _starts(job: Any, given: Mapping[str, str]) -> bool:
    for rule in job["rules"]:
        variable, text = re.fullmatch(r'\$(\w+) == "(.*)"', rule["if"]).groups()  # type: ignore[union-attr]
        if given.get(variable) == text:
            return bool(rule.get("when", "on_success") == "on_success")
    return False


def _extended(document: Any, job: Any) -> Any:
    base = document[job["extends"]] if "extends" in job else {}
    return {**base, **job, "variables": {**base.get("variables", {}), **job.get("variables", {})}}
