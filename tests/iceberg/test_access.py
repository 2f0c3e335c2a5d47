"""Clients without keys of their own: vended credentials, and signatures that a store checks for real."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from nessie_ops.store.packing import unpack
from tests.buckets import Buckets, moto
from tests.iceberg.helpers import SCHEMA as SCHEMA_JSON
from tests.iceberg.helpers import Json, create, error_of, new_key
from tests.iceberg.honest_buckets import honest
from tests.iceberg.test_pyiceberg import SCHEMA, batch, ids
from tests.server.processes import Served

ROLE = "arn:aws:iam::123456789012:role/lake"
DELEGATION = "X-Iceberg-Access-Delegation"


def settings(buckets: Buckets, **more: str) -> dict[str, str]:
    return {**buckets.environment, "NESSIE_OPS_WAREHOUSE": f"s3://{buckets.create()}/wh", **more}


def connect(served: Served, way: str, ref: str = "main") -> RestCatalog:
    """A client that has no keys."""
    return RestCatalog("keyless", uri=f"{served.base_uri}/iceberg/{ref}", **{f"header.{DELEGATION}": way})


def kept_answers(served: Served) -> bytes:
    """The answers to all requests with keys, as the store has them."""
    with sqlite3.connect(served.folder / "catalog.db") as connection:
        found = connection.execute("SELECT answer FROM idempotency_key").fetchall()
    connection.close()
    return b"".join(unpack(packed) for (packed,) in found)


@pytest.fixture(scope="module")
def buckets(environment: None) -> Iterator[Buckets]:
    """moto, whatever S3 the other tests use: it has an STS."""
    with moto() as server:
        yield server


@pytest.fixture(scope="module")
def vending(buckets: Buckets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("vending"), **settings(buckets, NESSIE_OPS_S3_ROLE_ARN=ROLE)) as server:
        yield server


@pytest.fixture(scope="module")
def store(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buckets]:
    with honest(tmp_path_factory.mktemp("buckets")) as server:
        yield server


@pytest.fixture(scope="module")
def signing(store: Buckets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("signing")
    with Served(folder, **settings(store, NESSIE_OPS_S3_REMOTE_SIGNING="true")) as server:
        yield server


class TestCredentials:
    """moto gives credentials and checks none: here it is what the server asks for and says."""

    @pytest.fixture
    def http(self, vending: Served) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=f"{vending.base_uri}/iceberg", timeout=60) as client:
            yield client

    def test_only_those_who_ask(self, http: httpx.Client, db: str, table: Json) -> None:
        plain = http.get(f"{db}/tables/t")
        assert plain.json()["config"] == {} and "storage-credentials" not in plain.json() and "etag" in plain.headers
        signing = http.get(f"{db}/tables/t", headers={DELEGATION: "remote-signing"})
        assert "storage-credentials" not in signing.json(), "which is off here"
        assert http.get(f"{db}/tables/t", headers={DELEGATION: "all-you-have"}).status_code == 400

    def test_for_the_table_alone(self, http: httpx.Client, db: str, table: Json, buckets: Buckets) -> None:
        answer = http.get(f"{db}/tables/t", headers={DELEGATION: "remote-signing,vended-credentials"})
        (given,) = answer.json()["storage-credentials"]
        assert given["prefix"] == table["metadata"]["location"]
        config = given["config"]
        assert answer.json()["config"] == config, "for clients that know no list of credentials"
        assert config["s3.access-key-id"] != buckets.key and buckets.secret not in answer.text
        assert config["s3.session-token"] and int(config["s3.session-token-expires-at-ms"]) > 1_700_000_000_000
        assert (config["s3.endpoint"], config["s3.delete-enabled"]) == (buckets.endpoint, "false")
        again = http.get(f"/{config['client.refresh-credentials-endpoint']}").json()["storage-credentials"]
        assert [one["prefix"] for one in again] == [given["prefix"]]
        assert again[0]["config"]["s3.session-token"] == config["s3.session-token"], "kept while they are good"

    def test_an_answer_that_ends_is_not_kept(self, http: httpx.Client, db: str, table: Json) -> None:
        tag = http.get(f"{db}/tables/t").headers["etag"]
        headers = {DELEGATION: "vended-credentials", "If-None-Match": tag}
        answer = http.get(f"{db}/tables/t", headers=headers)
        assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
        assert "etag" not in answer.headers

    def test_with_a_new_table(self, http: httpx.Client, db: str) -> None:
        http.headers[DELEGATION] = "vended-credentials"
        for stage in (True, False):
            made = create(http, db, f"t{stage}", **{"stage-create": stage})
            assert made["storage-credentials"][0]["prefix"] == made["metadata"]["location"]

    def test_an_answer_sent_again_gives_access_and_none_is_kept(
        self, vending: Served, http: httpx.Client, namespace: str
    ) -> None:
        http.post("/v1/main/namespaces", json={"namespace": [namespace]})
        db, secrets = f"/v1/main/namespaces/{namespace}", set()
        for stage in (True, False):
            headers = {DELEGATION: "vended-credentials", **new_key()}
            body = {"name": "t", "schema": SCHEMA_JSON, "stage-create": stage}
            first, again = (http.post(f"{db}/tables", json=body, headers=headers) for _ in range(2))
            assert first.status_code == 200 and first.content == again.content
            assert first.headers["cache-control"] == again.headers["cache-control"] == "no-store"
            config = first.json()["storage-credentials"][0]["config"]
            assert config["s3.secret-access-key"] and config["s3.session-token"]
            secrets |= {config["s3.secret-access-key"].encode(), config["s3.session-token"].encode()}
        refused = http.post(f"{db}/tables", json=body, headers={**headers, **new_key()})
        assert refused.status_code == 409 and "config" not in refused.json()
        kept = kept_answers(vending)
        assert b'{"metadata-location":' in kept
        assert not [secret for secret in secrets if secret in kept]

    def test_pyiceberg_reads_and_writes(self, vending: Served, namespace: str) -> None:
        catalog = connect(vending, "vended-credentials")
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.t", SCHEMA).append(batch(1, 2))
        assert ids(catalog.load_table(f"{namespace}.t")) == [1, 2]

    def test_on_a_branch_and_a_tag(self, vending: Served, http: httpx.Client, namespace: str, table: Json) -> None:
        with NessieClient(vending.base_uri) as nessie:
            at = nessie.get_reference("main").hash
            for kind, name in ((ReferenceType.BRANCH, f"run/{namespace}"), (ReferenceType.TAG, f"tag/{namespace}")):
                nessie.create_reference(kind, name, at)
                path = f"/v1/{quote(name, safe='')}/namespaces/{namespace}/tables/t"
                config = http.get(path, headers={DELEGATION: "vended-credentials"}).json()["config"]
                again = http.get(f"/{config['client.refresh-credentials-endpoint']}").json()["storage-credentials"]
                assert again[0]["config"].items() <= config.items()


def test_no_secret_is_told(buckets: Buckets, tmp_path: Path) -> None:
    """Neither in the log nor in answers; also when STS is gone, which is no reason not to make tables."""
    environment = {"NESSIE_OPS_S3_ROLE_ARN": ROLE, "NESSIE_OPS_S3_REMOTE_SIGNING": "true"}
    with ExitStack() as opened:
        with moto() as sts:
            sts_endpoint = {"NESSIE_OPS_S3_STS_ENDPOINT": sts.endpoint}
            server = opened.enter_context(Served(tmp_path, **settings(buckets, **environment, **sts_endpoint)))
            http = opened.enter_context(httpx.Client(base_url=f"{server.base_uri}/iceberg/v1", timeout=60))
            http.headers[DELEGATION] = "vended-credentials"
            http.post("/main/namespaces", json={"namespace": ["db"]})
            config = create(http, "/main/namespaces/db", "t")["config"]
        answers = [
            http.post("/main/namespaces/db/tables", json={"name": "u", "schema": SCHEMA_JSON}),
            http.get("/main/namespaces/db/tables/u"),
            http.post("/main/namespaces/db/tables", json={"name": "v", "schema": SCHEMA_JSON, "stage-create": True}),
            http.get("/config"),
            http.get("/main/namespaces/db/tables/t", headers={DELEGATION: "remote-signing"}),
            http.post("/main/namespaces/db/tables/t/sign", json={"region": "x", "method": "PUT", "headers": {}}),
        ]
        log = server.stop(signal.SIGTERM)[1]
    assert [answer.status_code for answer in answers] == [200, 503, 503, 200, 200, 400]
    assert "storage-credentials" not in answers[0].text and "etag" in answers[0].headers
    assert error_of(answers[1])[1] == "ServiceUnavailableException" and "STS" in answers[1].text
    assert "STS gives no credentials" in log
    everything = log + "".join(f"{answer.text} {answer.headers}" for answer in answers)
    for secret in (buckets.secret, config["s3.secret-access-key"], config["s3.session-token"]):
        assert len(secret) > 10 and secret not in everything


class TestSigning:
    """The store checks each signature, and the client has no keys."""

    @pytest.fixture
    def http(self, signing: Served) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=f"{signing.base_uri}/iceberg", timeout=60) as client:
            yield client

    def test_pyiceberg_reads_and_writes(self, signing: Served, namespace: str) -> None:
        catalog = connect(signing, "remote-signing")
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.t", SCHEMA).append(batch(1, 2))
        # One file, since PyIceberg's threads take the signer from each other for a moment.
        assert ids(catalog.load_table(f"{namespace}.t")) == [1, 2]
        with catalog.create_table_transaction(f"{namespace}.staged", SCHEMA) as change:
            change.append(batch(4))
        assert ids(catalog.load_table(f"{namespace}.staged")) == [4]

    def test_neither_the_neighbour_nor_a_tag_is_written(
        self, signing: Served, namespace: str, http: httpx.Client
    ) -> None:
        catalog = connect(signing, "remote-signing")
        catalog.create_namespace(namespace)
        one, other = (catalog.create_table(f"{namespace}.{name}", SCHEMA) for name in ("one", "other"))
        one.append(batch(1))
        with pytest.raises(Exception, match="sign"):
            one.io.new_output(f"{other.location()}/data/x").create().close()
        with pytest.raises(Exception, match="sign"):
            one.io.delete(f"{one.location()}/metadata/x")
        with NessieClient(signing.base_uri) as nessie:
            nessie.create_reference(ReferenceType.TAG, f"v-{namespace}", nessie.get_reference("main").hash)
        at_tag = connect(signing, "remote-signing", f"v-{namespace}").load_table(f"{namespace}.one")
        assert ids(at_tag) == [1]
        with pytest.raises(Exception, match="sign"):
            at_tag.io.new_output(f"{one.location()}/data/x").create().close()

    def test_headers_that_are_not_signed(self, http: httpx.Client, db: str, table: Json, store: Buckets) -> None:
        """Nobody slips another object's content in: what has an effect is signed or refused, here and by the store."""
        folder = f"{store.endpoint}/{table['metadata']['location'].removeprefix('s3://')}"
        wanted = {"region": "us-east-1", "method": "PUT", "headers": {}, "uri": f"{folder}/data/x"}
        headers = {name: value for name, (value,) in self.sign(http, db, wanted).items()}
        source = table["metadata-location"].removeprefix("s3://")
        assert httpx.put(wanted["uri"], headers={**headers, "x-amz-copy-source": source}).status_code == 403
        assert httpx.put(wanted["uri"], headers=headers, content=b"1").status_code == 200

    def sign(self, http: httpx.Client, db: str, wanted: Json) -> dict[str, list[str]]:
        signed = http.post(f"{db}/tables/t/sign", json=wanted)
        assert signed.status_code == 200, signed.text
        return dict(signed.json()["headers"])

    def test_the_endpoint(self, http: httpx.Client, db: str, table: Json, store: Buckets) -> None:
        location = table["metadata"]["location"].removeprefix("s3://")
        neighbour = create(http, db, "other")["metadata"]["location"].removeprefix("s3://")
        wanted = {"region": "us-east-1", "method": "GET", "headers": {"Host": ["x"]}, "provider": "s3"}
        wanted["uri"] = f"{store.endpoint}/{table['metadata-location'].removeprefix('s3://')}"
        signed = http.post(f"{db}/tables/t/sign", json=wanted)
        assert signed.headers["cache-control"] == "private" and store.secret not in signed.text
        headers = {name: value for name, (value,) in signed.json()["headers"].items()}
        assert httpx.get(signed.json()["uri"], headers=headers).json() == table["metadata"]
        assert httpx.get(signed.json()["uri"]).status_code == 403, "this store checks signatures"
        for change, code in (
            ({"uri": f"{store.endpoint}/{location}2/x"}, 403),
            ({"uri": f"{store.endpoint}/{neighbour}/data/x"}, 403),
            ({"method": "DELETE"}, 403),
            ({"method": "PUT"}, 403),  # of metadata.json
            ({"uri": "x"}, 400),
        ):
            refused = http.post(f"{db}/tables/t/sign", json=wanted | change)
            assert error_of(refused)[0] == code
        assert error_of(http.post(f"{db}/tables/none/sign", json=wanted))[0] == 403
        key = new_key()
        for change, code in (({}, 200), ({"method": "HEAD"}, 200), ({"method": "DELETE"}, 403)):
            answer = http.post(f"{db}/tables/t/sign", json=wanted | change, headers=key)
            assert answer.status_code == code, "signatures are no mutations, so none is kept for a key"
        for body in (b"{", b"[]", b'{"uri": 1}', b"{}"):
            assert error_of(http.post(f"{db}/tables/t/sign", content=body))[0] == 400


def test_signing_is_off_unless_turned_on(http: httpx.Client, db: str, table: Json) -> None:
    wanted = {"region": "us-east-1", "method": "GET", "headers": {}, "uri": "https://s3.amazonaws.com/lake/x"}
    code, _, message = error_of(http.post(f"{db}/tables/t/sign", json=wanted))
    assert code == 400 and "NESSIE_OPS_S3_REMOTE_SIGNING" in message
