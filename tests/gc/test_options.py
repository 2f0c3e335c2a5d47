"""What options turn into: URLs of databases, and stores of files."""

from __future__ import annotations

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.gc.properties import list_unknown, open_stores
from nessie_ops.gc.s3 import S3Files
from nessie_ops.store.livesets.jdbc import to_target


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("jdbc:postgresql://h:5433/d", "postgresql+psycopg://h:5433/d"),
        ("jdbc:postgresql://[::1]:5433/d", "postgresql+psycopg://[::1]:5433/d"),
        ("jdbc:postgresql:d", "postgresql+psycopg://localhost/d"),
        (
            "jdbc:postgresql://h/d?user=u&password=p%40&sslmode=require",
            "postgresql+psycopg://u:p%40@h/d?sslmode=require",
        ),
        ("jdbc:mariadb://h:3306/d", "mariadb+pymysql://h:3306/d"),
        ("jdbc:mysql://h/d?user=u", "mariadb+pymysql://u@h/d"),
        ("jdbc:sqlite:/a/b.db", "sqlite:////a/b.db"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
    ],
)
def test_jdbc_urls(given: str, url: str) -> None:
    assert to_target(given).url == url


def test_what_goes_with_a_jdbc_url() -> None:
    found = to_target("jdbc:postgresql://h/d?user=x&stringtype=y", "u", "p/", {"ApplicationName": "gc"})
    assert found.url == "postgresql+psycopg://u:p%2F@h/d?application_name=gc"
    assert found.ignored == ["stringtype"]
    assert to_target("postgresql+psycopg://h/d", "u", "p").url == "postgresql+psycopg://u:p@h/d"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("jdbc:h2:mem:nessie;MODE=PostgreSQL", "H2 runs in Java"),
        ("jdbc:oracle:thin:@h:1521:x", "jdbc:postgresql"),
        ("jdbc:postgresql://a,b/d", "one host"),
        ("jdbc:postgresql://h", "a database"),
        ("jdbc:mariadb://h/d?useSsl=true", "useSsl"),
        ("nonsense", "no URL"),
    ],
)
def test_jdbc_urls_that_do_not_work(given: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        to_target(given)


def test_iceberg_properties() -> None:
    stores = open_stores(
        {
            "s3.endpoint": "http://127.0.0.1:9000",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "hush",
            "s3.session-token": "token",
            "s3.path-style-access": "true",
            "client.region": "eu-west-1",
        }
    )
    files = stores.of("s3a://bucket/x")
    assert isinstance(files, S3Files)
    access = files._access
    assert (access.key_id, access.secret, access.token) == ("key", "hush", "token")
    assert (access.s3.endpoint, access.s3.region, access.s3.path_style) == ("http://127.0.0.1:9000", "eu-west-1", True)
    assert list_unknown(["s3.endpoint", "io-impl", "s3.acl"]) == ["s3.acl"]
    with pytest.raises(BadRequest, match="together"):
        open_stores({"s3.access-key-id": "key"})
    with pytest.raises(BadRequest, match="NESSIE_OPS_S3_PATH_STYLE"):
        open_stores({"s3.path-style-access": "maybe"})
