"""The certificates that Python trusts, as a trust store that Java reads.

Behind a proxy that re-signs TLS, `SSL_CERT_FILE` names the proxy's authority for Python, curl and git; a Java
that came with its own certificates does not know it.  The format is Sun's JKS, version 2, which every Java reads
and which needs no password when nothing but certificates is in it.
"""

from __future__ import annotations

import hashlib
import ssl
import struct

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # Java's own default; it guards no secret here, the digest below is a checksum


def trust_store(authorities: str) -> bytes:
    """The certificates of the PEM file `authorities` as a JKS file.  Raises OSError when it cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=authorities)
    certificates = context.get_ca_certs(binary_form=True)
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts += [
            struct.pack(">I", _TRUSTED_CERTIFICATE),
            _utf(f"authority-{number}"),
            struct.pack(">Q", 0),  # time of entry, not used for trust
            _utf("X.509"),
            struct.pack(">I", len(certificate)),
            certificate,
        ]
    body = b"".join(parts)
    return body + hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _utf(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
