"""Whatever a request says that the OpenAPI document allows, or nearly allows: never a 5xx, and no harm done.

Requests are generated from the served document, half of them with values that exist (branches, hashes,
keys, ids), since those get deeper than noise does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from random import Random
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core import NotSet

from tests.server.helpers import Api, Z, delete, namespace, put, running_server, table, view

EXAMPLES = 20  # per operation and mode
LEFT_OUT = {"committer", "commitTime", "parentCommitHashes", "hash"}  # of commit meta: only the server sets them
KEYS = ["a", "a.t", "new", ".a*.b", "t", "x\x1dy", "a..b"]
FILTERS = [
    *("true", "ref.name != 'x'", "size(entry.keyElements) > 1", "operations.exists(o, o.content.id == '')"),
    *("key.name == 't'", "commit.commitTime < timestamp('2020-01-01T00:00:00Z')", "1", "ref.", "[]" * 900),
]
Values = dict[str, list[Any]]
OF_REQUESTS: Values = {
    "number": [1, 2, 3, 0, "01", 10**18, 10**40],
    "source": ["dev", "v1", "main", "nope", "é", "\0"],
    "target": ["main", "dev", "v1", "", "\0"],
    "checks": [[{"name": "rows", "passed": True}], [{"name": "rows", "passed": False}] * 2, []],
    "requiredChecks": [["rows"], [], ["rows", "rows"], [""]],
}
OF_EVENTS: Values = {
    "subscriber": ["a.t", "new", "t", "nope"],  # those that are made have a name of `keys`
    "url": ["http://127.0.0.1:9/hook", "http://169.254.169.254/", "https://u:p@h/", "ftp://h/"],
    "secret": [None, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "hunter2"],
    "references": ["main|dev", "", "("],
    "seq": [1, 2, 0, -1],
}


@pytest.fixture(scope="module")
def base_uri() -> Iterator[str]:
    with running_server() as uri:
        yield uri


@pytest.fixture(scope="module")
def likely(base_uri: str) -> Values:
    """For names of parameters and fields, values that mean something in the repository."""
    api = Api(base_uri)
    with closing(api.http):
        api.commit(put("a", namespace("a")), put("a.t"), put("a.v", view()), put("t"))
        old = api.head()
        api.branch("dev")
        api.branch("v1", kind="TAG")
        id = api.content("t")["id"]
        api.commit(put("t", table(2, id)), delete("a.v"))
        api.commit(put("u"), ref="dev")
        head, dev = api.head(), api.head("dev")
        for source, target in (("dev", "main"), ("main", "dev"), ("v1", "dev")):
            api.post("merge-requests", {"source": source, "target": target, "requiredChecks": ["rows"]})
        tokens = [
            api.get(path, **{"max-records": 1})["token"]
            for path in ("trees", "trees/main/entries", "trees/main/history", "trees/main/diff/dev", "merge-requests")
        ]
    hashes = [old, old, head, head, dev, dev, Z, "~1", f"{head}~1", f"{dev}^2", "ab" * 32, "zz"]
    hashes.append(f"{old}*2026-01-01T00:00:00Z")
    at = [f"{name}@{commit}" for name in ("main", "dev", "v1", "") for commit in (old, head, dev, Z)]
    names = ["main", "main", "main", "dev", "dev", "v1", "-", "nope", "DETACHED", "run/7"]
    pages, sources = [*tokens, tokens[0][:-3], "e30", "bnVsbA", "W10"], [*names, "main~1"]
    return {
        "ref": [*names, *at, "main~1", f"main@{old}^2~1*0", "@", "a@"],
        "to_ref": [*names, *at],
        "refs": ["main...dev", f"main*{old}...dev", "main...", "...", f"-*{Z}...DETACHED*{dev}"],
        **dict.fromkeys(("key", "name", "min-key", "max-key", "prefix-key"), KEYS),
        **dict.fromkeys(("hash", "fromHash", "expectedHash", "hashOnRef", "limit-hash", "startHash"), hashes),
        **dict.fromkeys(("endHash", "commitHash", "sourceHash"), hashes),
        **dict.fromkeys(("page-token", "pageToken"), pages),
        **dict.fromkeys(("fromRefName", "sourceRefName", "sourceRef"), sources),
        "hashesToTransplant": [[dev], [old, dev], [Z], ["~1"]],
        "filter": FILTERS,
        "elements": [["a"], ["a", "t"], ["t"], ["new"], ["a", "new"], [], [""], ["\x1f"], ["x"] * 21, ["é" * 600]],
        "message": ["m", ""],
        "keepIndividualCommits": [None],
        "id": [id, None, None, "nope", "00000000-0000-4000-8000-000000000000"],
        **OF_EVENTS,
        **OF_REQUESTS,
        "authorTime": ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00Z"],
    }


def make_likely(value: Any, likely: Values, random: Random, share: float) -> Any:
    """`value` with some of the fields and parameters in it replaced by likely ones."""
    if isinstance(value, list):
        return [make_likely(item, likely, random, share) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, item in value.items():
        if name in likely and random.random() < share:
            made[name] = random.choice(likely[name])
        else:
            made[name] = make_likely(item, likely, random, share)
        if name == "commitMeta" and share and isinstance(item, dict):
            made[name] = {key: value for key, value in made[name].items() if key not in LEFT_OUT}
    return made


def leave_out(query: dict[str, Any], random: Random) -> dict[str, Any]:
    """A few of the parameters of a query, and all that are required."""
    required = {"expectedHash", "key", "name", "type"}
    return {name: value for name, value in query.items() if name in required or random.random() < 0.3}


def test_no_request_makes_the_server_fail(base_uri: str, likely: Values) -> None:
    schema = schemathesis.openapi.from_url(f"{base_uri}/nessie-openapi/openapi.json")
    accepted, failed = set(), []
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            codes = send(operation, mode, likely, failed)
            accepted |= {operation.label for code in codes if code < 300}
    assert failed == []
    every = {found.ok().label for found in schema.get_all_operations()}
    assert len(accepted) > len(every) * 0.5, sorted(every - accepted)
    check_repository(base_uri)


def send(operation: Any, mode: GenerationMode, likely: Values, failed: list[str]) -> Counter[int]:
    """Send requests; the statuses of the answers."""
    codes: Counter[int] = Counter()
    paths = likely | ({"ref": likely["sourceRef"]} if "/v1/" in operation.path else {})

    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), random=st.randoms(use_true_random=False))
    def run(case: Any, random: Random) -> None:
        share = random.choice([0.0, 0.9, 1.0, 1.0])
        case.path_parameters = make_likely(case.path_parameters, paths, random, share)
        case.query = make_likely(leave_out(case.query, random) if share else case.query, likely, random, share)
        case.query.pop("wait", None)  # what is answered late is no failure
        if not isinstance(case.body, NotSet):
            case.body = make_likely(case.body, likely, random, share)
        answer = case.call()
        codes[answer.status_code] += 1
        if answer.status_code >= 500:
            failed.append(
                f"{operation.label}: {answer.status_code} {answer.text[:300]} for {case.as_curl_command()[:600]}"
            )

    with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
        run()  # where any text will do, there is no wrong request
    return codes


def check_repository(base_uri: str) -> None:
    """Everything that was committed can be read."""
    api = Api(base_uri)
    for reference in api.get("trees", fetch="ALL")["references"]:
        at = f"@{reference['hash']}"
        entries = api.get(f"trees/{at}/entries", content="true")["entries"]
        assert all(row["content"]["id"] == row["contentId"] for row in entries)
        api.get(f"trees/{at}/history", fetch="ALL")
    api.http.close()
