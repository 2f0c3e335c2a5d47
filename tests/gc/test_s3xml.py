"""Answers of S3 are read as botocore reads them, and left to it where they are unusual."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse

from nessie_ops.gc.s3xml import hasten, read_quickly, write_deletion

XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ROW = "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>3</Size></Contents>"


def read(operation: str, body: str, status: int = 200) -> tuple[dict[str, Any], bytes]:
    answer: dict[str, Any] = {"status_code": status, "body": body.encode()}
    found: dict[str, Any] = {}
    read_quickly(SimpleNamespace(name=operation), answer, found)
    return found, answer["body"]


@pytest.mark.parametrize("namespace", ["", XMLNS])
def test_a_listing(namespace: str) -> None:
    encoded = "<EncodingType>url</EncodingType>" + ROW.format("a%20b+c/%253A")
    end = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    found, rest = read("ListObjectsV2", f"<ListBucketResult {namespace}>{encoded}{end}</ListBucketResult>")
    assert [(row["Key"], row["Size"], row["LastModified"].isoformat()) for row in found["Contents"]] == [
        ("a b c/%3A", 3, "2026-01-01T00:00:00+00:00")
    ]
    assert (found["IsTruncated"], found["NextContinuationToken"]) == (True, "t")
    assert found["CommonPrefixes"] == []
    assert rest == b"<ListBucketResult/>"
    folders = "<CommonPrefixes><Prefix>a%20b/</Prefix></CommonPrefixes>"
    level, _ = read("ListObjectsV2", f"<ListBucketResult {namespace}>{encoded}{folders}</ListBucketResult>")
    assert level["CommonPrefixes"] == [{"Prefix": "a b/"}]
    plain, _ = read("ListObjectsV2", f"<ListBucketResult {namespace}>{ROW.format('a+b%20')}</ListBucketResult>")
    assert [row["Key"] for row in plain["Contents"]] == ["a+b%20"]


ROWS = [ROW.format(f"k{n}") for n in range(3)]
END = "<IsTruncated>false</IsTruncated>"


@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        (ROWS, ["k0", "k1", "k2"]),
        ([ROW.format("a&amp;b"), ROWS[0]], ["a&b", "k0"]),
        ([ROW.format("<![CDATA[a<b]]>"), ROWS[0]], ["a<b", "k0"]),
        ([ROW.format("a").replace("Key>", "Key >"), ROWS[0]], ["a", "k0"]),
        ([ROW.replace("<Contents>", '<Contents a="b">').format("a"), ROWS[0]], ["a", "k0"]),
        ([ROWS[0], END.replace("false", "true"), ROWS[1]], ["k0", "k1"]),
        ([ROWS[0].replace("</Contents>", "<Owner><ID>Key</ID></Owner></Contents>"), ROWS[1]], ["k0", "k1"]),
    ],
)
def test_rows_of_every_look(rows: list[str], keys: list[str]) -> None:
    """Quickly or by a real reader of XML: none is lost, and each has its own size and time."""
    end = "" if END.replace("false", "true") in rows else END
    found, _ = read("ListObjectsV2", f"<ListBucketResult {XMLNS}>{end}{''.join(rows)}</ListBucketResult>")
    assert [(row["Key"], row["Size"]) for row in found["Contents"]] == [(key, 3) for key in keys]
    assert found["IsTruncated"] is not bool(end)


def test_keys_to_be_deleted_are_written_as_they_are() -> None:
    keys = ["a b/%3A+", "<&>'\"", "a\nb\r\tc", "ü/é#?*", "]]>"]
    assert [row.text for row in ElementTree.fromstring(write_deletion(keys)).iter() if row.tag.endswith("Key")] == keys


def test_a_deletion() -> None:
    error = "<Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    found, _ = read("DeleteObjects", f"<DeleteResult {XMLNS}><Deleted><Key>b</Key></Deleted>{error}</DeleteResult>")
    assert found == {"Errors": [{"Key": "a", "Code": "AccessDenied", "Message": "no"}]}
    found, rest = read(
        "DeleteObjects",
        f'<?xml version="1.0"?>\n<DeleteResult {XMLNS}><Deleted><Key>b</Key></Deleted></DeleteResult>\n',
    )
    assert (found, rest) == ({"Errors": []}, b"<DeleteResult/>")


@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        ("ListObjectsV2", "<Error><Code>SlowDown</Code></Error>", 200),
        ("ListObjectsV2", "<ListBucketResult>", 200),
        ("ListObjectsV2", "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>", 200),
        ("ListObjectsV2", "<ListBucketResult/>", 503),
        ("DeleteObjects", "<Error><Code>SlowDown</Code></Error>", 200),
        ("DeleteObjects", "<DeleteResult><Deleted><Key>a</Key></Deleted>", 200),
        ("DeleteObjects", "<ListBucketResult/>", 200),
        ("ListObjectsV2", "<DeleteResult></DeleteResult>", 200),
        ("DeleteObjects", f"<ListBucketResult>{ROWS[0]}</ListBucketResult>", 200),
        ("HeadBucket", "<DeleteResult/>", 200),
    ],
)
def test_what_is_unusual_is_left_as_it_is(operation: str, body: str, status: int) -> None:
    assert read(operation, body, status) == ({}, body.encode())


def test_an_error_that_looks_like_an_answer_is_asked_again() -> None:
    client = botocore.session.Session().create_client(
        "s3", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="x"
    )
    hasten(client)
    bodies = ["<Error><Code>InternalError</Code></Error>", f"<ListBucketResult>{ROWS[0]}{END}</ListBucketResult>"]

    def answer(request: Any, **_: Any) -> AWSResponse:
        raw = SimpleNamespace(stream=lambda *_, **__: [bodies.pop(0).encode()])
        return AWSResponse(request.url, 200, {}, raw)

    client.meta.events.register("before-send.s3", answer)
    assert [row["Key"] for row in client.list_objects_v2(Bucket="b")["Contents"]] == ["k0"]
    assert not bodies
