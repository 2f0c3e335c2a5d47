"""JDBC URLs as nessie-gc takes them, to URLs of SQLAlchemy's.  A URL that is none of JDBC's is left as it is.

Driver parameters that have the same meaning here are taken over.  One about encryption that has not is refused,
since to leave it out would weaken a connection; any other is told to the caller and left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from nessie_ops.errors import BadRequest

_JDBC = re.compile(r"jdbc:([a-z0-9]+):(?://([^/?]*)/?)?/?([^?;]*)(?:\?(.*))?(;.*)?", re.DOTALL)
_DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mariadb+pymysql", "mysql": "mariadb+pymysql"}
_SAME = {
    "postgresql": {
        "sslmode": "sslmode",
        "sslrootcert": "sslrootcert",
        "sslcert": "sslcert",
        "sslkey": "sslkey",
        "ApplicationName": "application_name",
        "connectTimeout": "connect_timeout",
    },
    "mariadb": {},
    "mysql": {},
}
_FORMS = "jdbc:postgresql://host:5432/database, jdbc:mariadb://host:3306/database or a URL of SQLAlchemy's"


class Target(NamedTuple):
    """Where live sets are: a URL of SQLAlchemy's, with the password; `ignored` parameters of the driver's."""

    url: str
    ignored: list[str]


def to_target(text: str, user: str = "", password: str = "", properties: Mapping[str, str] | None = None) -> Target:
    """The database that --jdbc-url and its companions name; BadRequest."""
    if not text.startswith("jdbc:"):
        return _complete(text, user, password, dict(properties or {}))
    match = _JDBC.fullmatch(text)
    kind = match[1] if match else ""
    if kind == "h2":
        raise BadRequest(f"jdbc-url: H2 runs in Java alone; use a SQLite file (sqlite:////path/to/gc.db), {_FORMS}.")
    if match and kind == "sqlite":
        path = text.removeprefix("jdbc:sqlite:")
        return Target(f"sqlite:///{path}", [])
    if match is None or kind not in _DRIVERS:
        raise BadRequest(f"jdbc-url: give {_FORMS}.")
    given = dict(parse_qsl(match[4] or "", keep_blank_values=True)) | dict(properties or {})
    named, secret = given.pop("user", ""), given.pop("password", "")
    user, password = user or named, password or secret
    url = _make_url(kind, match[2] or "localhost", match[3], user, password)
    same = _SAME[kind]
    weakening = [name for name in given if name not in same and "ssl" in name.lower()]
    if weakening:
        raise BadRequest(
            f"jdbc-url: {', '.join(weakening)} is a setting of Java's driver; give a URL of SQLAlchemy's instead, "
            "such as mariadb+pymysql://user@host/database?ssl_ca=/path/ca.pem."
        )
    url = url.update_query_dict({same[name]: value for name, value in given.items() if name in same})
    return Target(url.render_as_string(hide_password=False), [name for name in given if name not in same])


def _make_url(kind: str, address: str, database: str, user: str, password: str) -> URL:
    host, _, port = address.rpartition(":") if re.search(r":\d+$", address) else (address, "", "")
    if not database or "," in address or "@" in address:
        raise BadRequest(f"jdbc-url: give one host and a database: {_FORMS}.")
    return URL.create(
        _DRIVERS[kind], user or None, password or None, host.strip("[]"), int(port) if port else None, database
    )


def _complete(text: str, user: str, password: str, properties: dict[str, str]) -> Target:
    """A URL of SQLAlchemy's with the options that are given beside it."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadRequest(f"jdbc-url: this is no URL of a database; give {_FORMS}.") from None
    if user:
        url = url.set(username=user)
    if password:
        url = url.set(password=password)
    url = url.update_query_dict(properties)
    return Target(url.render_as_string(hide_password=False), [])
