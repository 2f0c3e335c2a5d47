"""The address under which a client knows this server, also behind a proxy.

A proxy tells it in `X-Forwarded-Proto`, `-Host`, `-Port` and `-Prefix`.  They are believed from everybody,
since the address goes into the answer to the very request that holds them and nowhere else.
"""

from __future__ import annotations

import re

from nessie_ops.errors import BadRequest
from nessie_ops.server.problems import AnyRequest

_SCHEME = re.compile(r"https?", re.IGNORECASE)
_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")
_PORT = re.compile(r"[0-9]{1,5}")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~%-]+)*/?")
_MAX_PORT = 65535


def base_uri(request: AnyRequest) -> str:
    """Scheme, host, port and the proxy's path prefix, with `/` at the end; BadRequest names the wrong header."""
    scheme = _match(request, "X-Forwarded-Proto", _SCHEME)
    host = _match(request, "X-Forwarded-Host", _HOST) or _match(request, "Host", _HOST)
    if host is None:
        raise BadRequest("Host: is missing; name the host that the request was sent to.")
    port = _match(request, "X-Forwarded-Port", _PORT)
    prefix = _match(request, "X-Forwarded-Prefix", _PREFIX)
    name, own_port = host["host"], port[0] if port else host["port"]
    if own_port and int(own_port) > _MAX_PORT:
        raise BadRequest(
            f"{'X-Forwarded-Port' if port else 'Host'}: {own_port} is no port; the highest is {_MAX_PORT}."
        )
    used = scheme[0].lower() if scheme else str(request.scope["scheme"])
    usual = {"http": "80", "https": "443"}[used]
    shown = "" if own_port in (None, usual) else f":{own_port}"
    return f"{used}://{name}{shown}{prefix[0].rstrip('/') if prefix else ''}/"


def _match(request: AnyRequest, name: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The header as matched, of a chain of proxies the one next to the client; None when it is absent or empty."""
    text = request.headers.get(name.lower(), "").partition(",")[0].strip()
    if not text:
        return None
    found = pattern.fullmatch(text)
    if found is None:
        raise BadRequest(f"{name}: '{text[:80]}' cannot be read.")
    return found
