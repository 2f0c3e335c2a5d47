"""Signatures, secrets, delays and addresses: the parts of webhooks that need no network."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.events import Networks, Policy, verify
from nessie_ops.events.filters import MAX_PATTERN, check_pattern
from nessie_ops.events.webhook import TOLERANCE_S, get_delay_s, make_headers, make_secret, read_secret, sign

RAW = bytes(range(32))
SECRET = make_secret(RAW)
NOW = 1_700_000_000


def test_a_signature_is_what_the_specification_says() -> None:
    """An example of the specification's own libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    found = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    plain = hmac.new(RAW, b"i.1." + body, hashlib.sha256).digest()
    assert sign(SECRET, "i", 1, body) == "v1," + base64.b64encode(plain).decode()


def test_a_genuine_message_is_known_and_nothing_else() -> None:
    headers = make_headers(SECRET, "evt_1", NOW, b"{}")
    assert verify(SECRET, headers, b"{}", NOW + TOLERANCE_S) == "evt_1"
    rotated = headers | {"webhook-signature": "v1,AAAA " + headers["webhook-signature"]}
    assert verify(SECRET, rotated, b"{}", NOW) == "evt_1"
    other = make_secret(RAW[::-1])
    for secret, changed, body, now in (
        (other, {}, b"{}", NOW),
        (SECRET, {}, b"{ }", NOW),
        (SECRET, {"webhook-id": "evt_2"}, b"{}", NOW),
        (SECRET, {"webhook-timestamp": str(NOW + 1)}, b"{}", NOW),
        (SECRET, {"webhook-timestamp": "soon"}, b"{}", NOW),
        (SECRET, {"webhook-signature": ""}, b"{}", NOW),
        (SECRET, {"webhook-signature": "v1,é"}, b"{}", NOW),
        (SECRET, {}, b"{}", NOW + TOLERANCE_S + 1),
        (SECRET, {}, b"{}", NOW - TOLERANCE_S - 1),
    ):
        with pytest.raises(BadRequest, match="webhook-"):
            verify(secret, headers | changed, body, now)
    with pytest.raises(BadRequest):
        verify(SECRET, {}, b"{}", NOW)


def test_a_secret_has_a_length_and_its_errors_do_not_repeat_it() -> None:
    assert read_secret(SECRET) == RAW == read_secret(SECRET.removeprefix("whsec_"))
    for wrong in ("", "whsec_", "hunter2", make_secret(b"x" * 23), make_secret(b"x" * 65), "whsec_ü"):
        with pytest.raises(BadRequest, match="secret") as caught:
            read_secret(wrong)
        assert not wrong or wrong not in caught.value.message or wrong == "whsec_"


def test_delays_double_up_to_a_bound() -> None:
    policy = Policy(first_retry_s=1, max_retry_s=100)
    assert [get_delay_s(policy, n, 0) for n in (1, 2, 3, 7, 8, 1000)] == [1, 2, 4, 64, 100, 100]
    assert get_delay_s(policy, 3, 1) == 2


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
    ],
)
def test_metadata_and_link_local_addresses_are_refused_unless_allowed(address: str) -> None:
    assert not Networks().allows(address)
    everything = Networks.from_env({"NESSIE_OPS_EVENTS_ALLOW": "0.0.0.0/0, ::/0"})
    assert everything.allows(address)


def test_other_addresses_are_allowed_unless_refused() -> None:
    for address in ("127.0.0.1", "10.1.2.3", "::1", "fd00::1", "93.184.216.34", "2606:2800::1"):
        assert Networks().allows(address)
    private = Networks.from_env({"NESSIE_OPS_EVENTS_REFUSE": "10.0.0.0/8,::1/128"})
    assert not private.allows("10.1.2.3") and not private.allows("::1") and not private.allows("::ffff:10.0.0.1")
    assert private.allows("127.0.0.1")
    with pytest.raises(BadRequest, match="NESSIE_OPS_EVENTS_REFUSE"):
        Networks.from_env({"NESSIE_OPS_EVENTS_REFUSE": "10.0.0.0/80"})


def test_patterns_are_regular_expressions() -> None:
    assert check_pattern("release/.*|main") == "release/.*|main"
    for wrong in ("(", "a{2,1}", "(?=x)", "x" * (MAX_PATTERN + 1)):
        with pytest.raises(BadRequest, match="references"):
            check_pattern(wrong)
