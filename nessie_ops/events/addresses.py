"""Which addresses webhooks may go to.  A URL given by a person must not make the server ask the cloud for its keys.

Refused are link-local, multicast and unspecified addresses and the well-known addresses of metadata services.
Loopback and private addresses are allowed, since receivers mostly stand beside the catalog; whoever lets
strangers name URLs refuses these, too.  What is judged is the address that is connected to, not a name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from nessie_ops.errors import BadRequest

ALLOW, REFUSE = "NESSIE_OPS_EVENTS_ALLOW", "NESSIE_OPS_EVENTS_REFUSE"
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_REFUSED: tuple[Network, ...] = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv4Network("224.0.0.0/4"),
    IPv4Network("255.255.255.255/32"),
    IPv6Network("::/128"),
    IPv6Network("fe80::/10"),
    IPv6Network("ff00::/8"),
    IPv4Network("168.63.129.16/32"),  # metadata services that are not link-local: Azure, Alibaba, Oracle, AWS
    IPv4Network("100.100.100.200/32"),
    IPv4Network("192.0.0.192/32"),
    IPv6Network("fd00:ec2::254/128"),
)
_NAT64 = IPv6Network("64:ff9b::/96")


class Networks(NamedTuple):
    """Networks that are allowed before any rule, and those that are refused besides the usual ones."""

    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Networks:
        """Comma-separated networks in NESSIE_OPS_EVENTS_ALLOW and NESSIE_OPS_EVENTS_REFUSE; BadRequest."""
        return cls(_parse(ALLOW, env.get(ALLOW, "")), _parse(REFUSE, env.get(REFUSE, "")))

    def allows(self, address: str) -> bool:
        """Whether a webhook may be sent to this IP address."""
        found = _unwrap(ip_address(address.partition("%")[0]))
        if _within(found, self.allowed):
            return True
        return not _within(found, _REFUSED) and not _within(found, self.refused)


def _parse(name: str, text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise BadRequest(f"{name}: {error}; give networks such as 10.0.0.0/8, with commas between.") from None


def _unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
