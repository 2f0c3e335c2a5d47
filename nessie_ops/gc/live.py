"""Which places are live: exactly, or by a Bloom filter, which may keep a dead file but never loses a live one."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable
from typing import Protocol

from pybloom_live import BloomFilter

from nessie_ops.errors import BadRequest

EXACT_FILES = 20_000_000  # live files up to which digests are held in memory, at some 100 bytes each


class LivePlaces(Protocol):
    """A set of places.  Safe for threads."""

    def add(self, places: Iterable[str]) -> None: ...

    def __contains__(self, place: str) -> bool: ...

    def __len__(self) -> int: ...


class Overfull(Exception):
    """More places were added than this kind of set is made for."""


def digest_of(place: str) -> bytes:
    """128 bits for a place: that two of 10⁹ have the same is a chance of 10⁻²¹, and would keep one of them."""
    return hashlib.blake2b(place.encode(), digest_size=16).digest()


class Exact:
    """The digests of all places."""

    def __init__(self, limit: int | None = None) -> None:
        self._digests: set[bytes] = set()
        self._limit = limit

    def add(self, places: Iterable[str]) -> None:
        """Add places; Overfull once there are more than the limit."""
        self._digests.update(map(digest_of, places))
        if self._limit is not None and len(self._digests) > self._limit:
            raise Overfull

    def __contains__(self, place: str) -> bool:
        return digest_of(place) in self._digests

    def __len__(self) -> int:
        return len(self._digests)


class Bloom:
    """A filter for `expected` places with error rate `fpp`; Overfull once the rate is above `allowed`."""

    def __init__(self, expected: int, fpp: float, allowed: float) -> None:
        check_rates(expected, fpp, allowed)
        self._filter = BloomFilter(expected, fpp)
        # The filter refuses more than its capacity, so it has room for as many as keep the rate allowed.
        self._limit = _places_at(self._filter.num_bits, self._filter.num_slices, allowed)
        self._filter.capacity = self._limit
        self._lock = threading.Lock()

    def add(self, places: Iterable[str]) -> None:
        with self._lock:
            for place in places:
                if self._filter.count >= self._limit:
                    raise Overfull
                self._filter.add(place)

    def __contains__(self, place: str) -> bool:
        return place in self._filter

    def __len__(self) -> int:
        return int(self._filter.count)


def check_rates(expected: int, fpp: float, allowed: float) -> None:
    """BadRequest when no filter can be made so."""
    if not 0 < fpp <= allowed < 1:
        raise BadRequest(f"fpp: {fpp} and allowed-fpp: {allowed} must be above 0, below 1, and the first not larger.")
    if expected < 1:
        raise BadRequest("expected-file-count: must be positive.")


def _places_at(bits: int, slices: int, rate: float) -> int:
    """After how many places a filter of so many bits in so many slices has this error rate."""
    per_slice = bits / slices
    return max(1, int(-per_slice * math.log(1 - rate ** (1 / slices))))
