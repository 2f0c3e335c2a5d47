"""What a client with access to one table may do, as a policy and as requests that are signed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nessie_ops.catalog import S3
from nessie_ops.catalog.grants import Grant, grant_of, grant_unborn, session_policy
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.signing import Effect, SignRequest, check_effect, effect_of, headers_to_sign
from nessie_ops.errors import BadRequest, Forbidden

STORE = S3(endpoint="http://127.0.0.1:9000", region="us-east-1", path_style=True)
GRANT = Grant(("s3://lake/wh/t_1",), may_write=True)
BUCKET = "http://127.0.0.1:9000/lake"
TABLE = f"{BUCKET}/wh/t_1"


def ask(method: str, uri: str, s3: S3 = STORE, **fields: Any) -> Effect:
    request = SignRequest(**{"region": "us-east-1", "headers": {}, "method": method, "uri": uri, **fields})
    effect = effect_of(request, s3)
    check_effect(effect, GRANT)
    headers_to_sign(request.headers)
    return effect


@pytest.mark.parametrize(
    ("method", "uri", "operation"),
    [
        ("GET", f"{TABLE}/data/a%20b.parquet", "read"),
        ("GET", f"{TABLE}/data/day%3D1/x?x-id=GetObject", "read"),
        ("HEAD", f"{TABLE}/x", "read"),
        ("PUT", f"{TABLE}/x", "write"),
        ("POST", f"{TABLE}/x?uploads", "write"),
        ("PUT", f"{TABLE}/x?partNumber=1&uploadId=u", "write"),
        ("POST", f"{TABLE}/x?uploadId=u", "write"),
        ("DELETE", f"{TABLE}/x?uploadId=u", "write"),
        ("GET", f"{BUCKET}?list-type=2&prefix=wh/t_1/&delimiter=/&max-keys=1", "list"),
        ("GET", f"{BUCKET}/?list-type=2&prefix=wh%2Ft_1%2Fdata", "list"),
        ("GET", "http://lake.127.0.0.1:9000/wh/t_1/x", "read"),
    ],
)
def test_signed(method: str, uri: str, operation: str) -> None:
    assert ask(method, uri).operation == operation


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("DELETE", f"{TABLE}/x"),
        ("POST", f"{BUCKET}?delete"),
        ("PUT", f"{TABLE}/metadata/00001-x.metadata.json"),
        ("PUT", f"{TABLE}/metadata/00001-x.gz.metadata.json"),
        ("PUT", f"{TABLE}/x?acl"),
        ("GET", f"{TABLE}/x?acl="),
        ("GET", f"{TABLE}/x?uploadId=u&tagging"),
        ("PATCH", f"{TABLE}/x"),
        ("get", f"{TABLE}/x"),
        ("GET", f"{BUCKET}/wh/t_12/x"),
        ("GET", f"{BUCKET}/wh/t_1"),
        ("GET", f"{BUCKET}/wh/t_1/"),
        ("GET", "http://127.0.0.1:9000/other/wh/t_1/x"),
        ("GET", "http://other.127.0.0.1:9000/wh/t_1/x"),
        ("GET", "http://127.0.0.1:9001/lake/wh/t_1/x"),
        ("GET", "http://evil.example/lake/wh/t_1/x"),
        ("GET", "http://127.0.0.1.evil.example:9000/lake/wh/t_1/x"),
        ("GET", f"{BUCKET}?list-type=2"),
        ("GET", f"{BUCKET}?list-type=2&prefix=wh/t_1"),
        ("GET", f"{BUCKET}?list-type=2&prefix=wh/t_12/"),
        ("GET", f"{BUCKET}?prefix=wh/t_1/"),
        ("GET", f"{BUCKET}?versions&prefix=wh/t_1/"),
        ("GET", f"{BUCKET}?list-type=2&prefix=wh/t_1/&policy"),
        ("GET", "http://127.0.0.1:9000/"),
    ],
)
def test_forbidden(method: str, uri: str) -> None:
    with pytest.raises(Forbidden):
        ask(method, uri)


@pytest.mark.parametrize(
    "uri",
    [
        f"{TABLE}/../t_2/x",
        f"{TABLE}/%2e%2e/t_2/x",
        f"{TABLE}/%252e%252e/t_2/x",
        f"{TABLE}//x",
        f"{TABLE}/a%0ab",
        f"{TABLE}/%ff",
        f"{TABLE}/x#y",
        f"{TABLE}/x y",
        f"{TABLE}/x\n",
        f"{TABLE}/é",
        f"{BUCKET}?list-type=2&prefix=wh/t_1/&prefix=wh/",
        f"{BUCKET}?list-type=2&prefix=wh/t_1/../",
        "http://me@127.0.0.1:9000/lake/wh/t_1/x",
        "https://127.0.0.1:9000/lake/wh/t_1/x",
        "http://127.0.0.1:x/lake",
        "http://[",
        "/lake/wh/t_1/x",
        "",
    ],
)
def test_not_in_normal_form(uri: str) -> None:
    with pytest.raises(BadRequest, match="uri"):
        ask("GET", uri)


def test_other_fields() -> None:
    for fields, word in (({"provider": "gcs"}, "provider"), ({"region": "a/b"}, "region"), ({"region": ""}, "region")):
        with pytest.raises(BadRequest, match=word):
            ask("GET", f"{TABLE}/x", **fields)
    assert ask("GET", f"{TABLE}/x", provider="s3", headers={"X-Amz-Meta-A": ["b"], "x-amz-date": ["1"]})
    for name in (
        "x-amz-copy-source",
        "X-Amz-ACL",
        "x-amz-grant-read",
        "x-amz-tagging",
        "x-amz-website-redirect-location",
    ):
        with pytest.raises(Forbidden, match=name.lower()):
            ask("PUT", f"{TABLE}/x", headers={name: ["lake/wh/t_2/x"]})
    with pytest.raises(BadRequest, match="x-amz-meta-a"):
        ask("PUT", f"{TABLE}/x", headers={"x-amz-meta-a": ["b\nx-amz-acl:public-read"]})


def test_hosts_of_aws() -> None:
    aws = S3(region="eu-west-1")
    for host in ("s3.us-east-1.amazonaws.com/lake", "s3.amazonaws.com/lake", "lake.s3.us-east-1.amazonaws.com"):
        assert ask("GET", f"https://{host}/wh/t_1/x", aws).location == "s3://lake/wh/t_1/x"
    for host in (
        "lake",
        "s3.eu-west-1.amazonaws.com/lake",
        "lake.s3.evil.amazonaws.com.evil.example",
        "other.s3.amazonaws.com",
    ):
        with pytest.raises(Forbidden):
            ask("GET", f"https://{host}/wh/t_1/x", aws)
    with pytest.raises(BadRequest):
        ask("GET", "http://s3.amazonaws.com/lake/wh/t_1/x", aws)


def test_read_only() -> None:
    reader = Grant(GRANT.locations, may_write=False)
    check_effect(Effect("read", "s3://lake/wh/t_1/x"), reader)
    with pytest.raises(Forbidden, match="read-only"):
        check_effect(Effect("write", "s3://lake/wh/t_1/x"), reader)
    assert "Put" not in session_policy(reader)


def test_locations_of_a_table() -> None:
    """Its own and those of its properties, each once, and none outside the warehouse."""
    warehouse = Warehouse("s3://lake/wh")
    properties = {"write.data.path": "s3a://lake/wh/data/t", "write.metadata.path": "s3://lake/wh/t/metadata"}
    metadata = {"location": "s3://lake/wh/t", "properties": properties, "schemas": []}
    assert grant_of(json.dumps(metadata).encode(), warehouse, may_write=True) == Grant(
        ("s3://lake/wh/data/t", "s3://lake/wh/t"), may_write=True
    )
    for outside in ("s3://other/t", "s3://lake/wh", "s3://lake/wh2/t", "s3://lake/wh/../x", "file:///etc"):
        assert grant_of(json.dumps({"location": outside}).encode(), warehouse, may_write=True).locations == ()


def test_locations_in_allowed_places() -> None:
    """Those count as the warehouse does, if they are on S3."""
    warehouse = Warehouse("file:///wh", ["s3://lake/more", "/other"])
    for inside in ("s3://lake/more", "s3a://lake/more/t/"):
        metadata = {"location": inside, "properties": {"write.data.path": "/other/t"}}
        found = grant_of(json.dumps(metadata).encode(), warehouse, may_write=True).locations
        assert found == (inside.replace("s3a", "s3").rstrip("/"),)
    for other in ("file:///wh/t", "/other/t", "s3://lake/more2"):
        assert grant_of(json.dumps({"location": other}).encode(), warehouse, may_write=True).locations == ()


def test_a_table_to_come() -> None:
    uuid = "0b9f5b8e-6c0c-4a8e-8a39-6a8f3c1d2e4f"
    base = "s3://lake/wh/db/t"
    assert grant_unborn(base, f"{base}_{uuid}/data/x") == Grant((f"{base}_{uuid}",), may_write=True)
    for other in (f"{base}_{uuid}", f"{base}_{uuid}x/y", f"{base}2_{uuid}/x", f"{base}/x", f"{base}_/x"):
        assert grant_unborn(base, other) is None


def test_policy() -> None:
    """AWS evaluates it; what `*` and `?` of a location would mean there is escaped."""
    policy = json.loads(session_policy(Grant(("s3://lake/wh/t_*",), may_write=True), "aws-cn"))
    files, listing, metadata = policy["Statement"]
    assert files["Resource"] == ["arn:aws-cn:s3:::lake/wh/t_${*}/*"] and files["Effect"] == "Allow"
    assert not any("Delete" in action for action in files["Action"])
    assert listing["Resource"] == "arn:aws-cn:s3:::lake"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["wh/t_${*}/*"]}}
    whole = json.loads(session_policy(Grant(("s3://lake",), may_write=False)))["Statement"]
    assert (whole[0]["Resource"], whole[1]["Condition"]["StringLike"]["s3:prefix"]) == (["arn:aws:s3:::lake/*"], ["*"])
    assert metadata["Effect"] == "Deny" and metadata["Resource"] == ["arn:aws-cn:s3:::lake/wh/t_${*}/*.metadata.json"]
