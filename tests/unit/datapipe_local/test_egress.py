"""Tests of the rule for the addresses of HTTP destinations: classes of addresses, and connections."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import Progress, Record, Target
from datapipe_local.connectors.destinations.http import HttpDestination
from datapipe_local.connectors.egress import EgressRule, literal_address, required_rule
from tests.support.scripted_server import Reply, ScriptedServer

PUBLIC, LOOPBACK, PRIVATE, ANY = EgressRule


@pytest.mark.parametrize(
    ("rule", "addresses"),
    [
        (PUBLIC, "8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1"),
        (LOOPBACK, "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 ::7f00:1 2002:7f00:1::"),
        (PRIVATE, "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fc00::1 fdff::1 ::ffff:10.0.0.1"),
        (ANY, "0.0.0.0 0.1.2.3 :: 169.254.169.254 fe80::1 fe80::1%1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe"),
        (ANY, "fd00:ec2::254 100.100.100.200 168.63.129.16 192.0.0.192 224.0.0.1 ff02::1 255.255.255.255 240.0.0.1"),
    ],
)
def test_addresses_have_the_class_that_allows_them(rule: EgressRule, addresses: str) -> None:
    found = {text: required_rule(ipaddress.ip_address(text)) for text in addresses.split()}
    assert found == dict.fromkeys(found, rule)


@given(st.ip_addresses(v=4))
def test_an_ipv4_mapped_address_has_the_class_of_its_ipv4(address: ipaddress.IPv4Address) -> None:
    assert required_rule(ipaddress.IPv6Address(f"::ffff:{address}")) == required_rule(address)


@given(st.ip_addresses())
def test_each_rule_allows_what_the_stricter_one_allows(address: Any) -> None:
    allowed = [rule.allows(address) for rule in EgressRule]
    assert allowed == sorted(allowed)
    assert allowed[-1]


def test_octal_parts_of_ipv4_addresses_are_read() -> None:
    assert literal_address("0177.0.0.1") == ipaddress.ip_address("127.0.0.1")


def send(host: str, server: ScriptedServer | None = None, rule: EgressRule = LOOPBACK) -> object:
    """Send a record to the port of a server, under another host name. A refused destination is not tried again."""
    pauses: list[float] = []
    port = "80" if server is None else server.url.rpartition(":")[2]
    settings = {"url": f"http://{host}:{port}"}
    destination = HttpDestination(settings, Target("sync", "x"), Progress(), pauses.append, rule)
    try:
        return destination.send([Record("1", {"n": 1}, {"n": 1})])
    finally:
        destination.close()
        assert pauses == []


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([Reply(201)]) as server:
        yield server


@pytest.fixture
def proxy(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """Return the server, as the proxy of this process."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, server.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return server


def answer_dns(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Resolve names to these addresses, one per request; the last one answers all later requests."""
    resolved: list[str] = []
    original = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if not str(host).endswith(".example"):
            return original(host, port, *args, **options)
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror("not an address")
        resolved.append(host)
        found = answers[min(len(resolved), len(answers)) - 1].split()
        return [entry for address in found for entry in original(address, port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return resolved


THIS_MACHINE = "127.0.0.1 localhost LOCALHOST 127.1 2130706433 0x7f.1 0x7f000001 [::ffff:127.0.0.1]"
NETWORKS = "10.0.0.1 172.16.0.1 192.168.0.1 [fd00::1]"
#: Metadata services, and unspecified addresses.
SPECIAL = "0 169.254.169.254 [fe80::1] [::] [::ffff:a9fe:a9fe] 2852039166"

#: Hosts, the rule that refuses them, and the message.
REFUSED = [
    (THIS_MACHINE, PUBLIC, "an address of this machine.*--http-destinations loopback"),
    (NETWORKS, LOOPBACK, r"refused: \S+ is an address of a private network.*--http-destinations private"),
    *((SPECIAL, rule, "link-local, cloud metadata.*--http-destinations any") for rule in (PUBLIC, LOOPBACK, PRIVATE)),
]


@pytest.mark.parametrize(
    ("host", "rule", "message"), [(host, *refused) for hosts, *refused in REFUSED for host in hosts.split()]
)
def test_refused_hosts_get_no_request(server: ScriptedServer, host: str, rule: EgressRule, message: str) -> None:
    with pytest.raises(RunError, match=message):
        send(host, server, rule)
    assert server.seen == []


def test_a_name_is_refused_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_dns(monkeypatch, "169.254.169.254 10.0.0.1")
    with pytest.raises(RunError, match=r"meta\.example has the address 169\.254\.169\.254, a link-local"):
        send("meta.example")


def test_the_checked_address_is_the_connected_one(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = answer_dns(monkeypatch, "127.0.0.1", "169.254.169.254")
    assert send("rebind.example", server) == [None]
    assert resolved == ["rebind.example"]
    with pytest.raises(RunError, match="was refused"):
        send("rebind.example", server)


def test_refused_addresses_of_a_name_are_skipped(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_dns(monkeypatch, "169.254.169.254 127.0.0.1")
    assert send("mixed.example", server) == [None]


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "2852039166", "meta.example"])
def test_a_proxy_gets_no_refused_destination(proxy: ScriptedServer, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    answer_dns(monkeypatch, "169.254.169.254")
    with pytest.raises(RunError, match="was refused"):
        send(host)
    assert proxy.seen == []


def test_a_proxy_gets_names_that_only_it_resolves(proxy: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_dns(monkeypatch, "")
    assert send("partner.example") == [None]
    assert len(proxy.seen) == 1
