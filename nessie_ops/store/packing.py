"""How nodes and contents are packed in their rows.  Ids are hashes of the unpacked: a better packing changes none."""

from __future__ import annotations

import zlib

MIN_PACKED = 200  # bytes; fewer are stored as they are
# First byte of stored data: as it is; zlib (written by format 1 only); 4 bytes of length, that much deflated, the rest.
_RAW, _ZLIB, _SPLIT = b"\x00", b"\x01", b"\x02"
_WINDOW = -12  # bits, without header


def pack(data: bytes, dense: bytes) -> bytes:
    """`data` made smaller where it can be, and `dense` as it is."""
    if len(data) > MIN_PACKED:
        # A small window: the default one takes longer to set up than a node takes to compress.
        deflate = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 5)
        packed = deflate.compress(data) + deflate.flush()
        if len(packed) + 4 < len(data):
            return b"".join((_SPLIT, len(packed).to_bytes(4, "big"), packed, dense))
    return _RAW + data + dense


def unpack(data: bytes) -> bytes:
    """What was hashed, from stored data; zlib.error."""
    kind = data[:1]
    if kind == _SPLIT:
        cut = 5 + int.from_bytes(data[1:5], "big")
        return zlib.decompress(data[5:cut], _WINDOW) + data[cut:]
    return zlib.decompress(data[1:]) if kind == _ZLIB else bytes(data[1:])
