"""Tests of the parser of ``host[:port]``."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.common.authority import Authority, is_loopback, parse_authority

LOOPBACK = ipaddress.ip_address("127.0.0.1")
MALFORMED = """
    :80 . .localhost localhost.. a..b -a a-.b [::1].evil.com [::1]evil.com:80 evil.com[::1] [::1 ::1 [] [127.0.0.1]
    [fe80::1%25eth0] [fe80::1%eth0] [v1.a] 127.0.0.1:80@evil.com user@localhost localhost:port localhost:-1
    localhost:+1 localhost:65536 localhost:000080 localhost:80:80 localhost:\u0668\u0660 localhost:8\u00b2
    2130706433 0x7f000001 0x7f.0.0.0x1 0177.0.0.1 127.1 127.0.0.1.1 256.0.0.1 evil.com.1 127\u30020\u30020\u30021
    \uff4cocalhost b\u00fccher.example localhost\0 localhost\0.evil.com localhost%00.evil.com localhost/..
    localhost?x localhost#x localhost\\ http://localhost localhost,evil.com *.example
"""
MALFORMED_SPACES = ["", " localhost", "localhost ", "local host", "localhost\t", "localhost\n", "localhost\r\nx: y"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LocalHost.:8484", Authority("localhost", None, 8484)),
        ("localhost:", Authority("localhost", None, None)),
        ("my_service", Authority("my_service", None, None)),
        ("xn--bcher-kva.example:65535", Authority("xn--bcher-kva.example", None, 65535)),
        ("127.0.0.1:0", Authority("127.0.0.1", LOOPBACK, 0)),
        ("127.0.0.1.", Authority("127.0.0.1", LOOPBACK, None)),
        ("[::1]:80", Authority("::1", ipaddress.ip_address("::1"), 80)),
        ("[::FFFF:127.0.0.1]", Authority("::ffff:127.0.0.1", ipaddress.ip_address("::ffff:127.0.0.1"), None)),
    ],
)
def test_hosts_and_ports_are_parsed(text: str, expected: Authority) -> None:
    assert parse_authority(text) == expected


@pytest.mark.parametrize("text", [*MALFORMED.split(), *MALFORMED_SPACES, "a" * 64, ".".join(["a" * 63] * 4)])
def test_malformed_authorities_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_authority(text)


@given(st.text(alphabet="aZ0.-_:[]@%/\\ \x00\u3002", max_size=12))
def test_a_parsed_authority_has_one_reading(text: str) -> None:
    try:
        parsed = parse_authority(text)
    except ValueError:
        return
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    rest = text.lower().removeprefix(host)
    assert rest.removeprefix(".") in {"", ":", *([] if parsed.port is None else [rest.removeprefix(".")])}
    assert parse_authority(host if parsed.port is None else f"{host}:{parsed.port}") == parsed


@given(st.ip_addresses(), st.none() | st.integers(0, 65535))
def test_every_ip_address_is_parsed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    parsed = parse_authority(host if port is None else f"{host}:{port}")
    assert (parsed.address, parsed.port) == (address, port)


def test_loopback_includes_ipv4_mapped_addresses() -> None:
    for text in ("127.9.9.9", "::1", "::ffff:127.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"):
        assert is_loopback(ipaddress.ip_address(text)) is ("10.0.0.1" not in text)
