"""Rule for the addresses of HTTP destinations: classes of addresses, and connections."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe_local.destinations.base import Progress, Record, Target
from datapipe_local.destinations.http import HttpDestination
from datapipe_local.egress import EgressRule, literal_address, required_rule
from datapipe_local.errors import RunError
from tests.support.scripted_server import Reply, ScriptedServer

PUBLIC, LOOPBACK, PRIVATE, ANY = EgressRule
ONE = Record("1", {"n": 1}, {"n": 1})


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


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1"])
def test_other_forms_of_ipv4_addresses_are_read(host: str) -> None:
    assert literal_address(host) == ipaddress.ip_address("127.0.0.1")


def send(url: str, rule: EgressRule = LOOPBACK) -> object:
    pauses: list[float] = []
    destination = HttpDestination({"url": url}, Target("sync", "x"), Progress(), pauses.append, rule)
    try:
        return destination.send([ONE])
    finally:
        destination.close()
        # A refused destination is not tried again.
        assert pauses == []


def answer_dns(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Resolve names to these addresses, one per request; the last one answers all later requests."""
    asked: list[str] = []
    original = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if not str(host).endswith(".example"):
            return original(host, port, *args, **options)
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror("not an address")
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1].split()
        return [entry for address in found for entry in original(address, port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


HOSTS = "127.0.0.1 localhost LOCALHOST 127.1 2130706433 0x7f.1 [::ffff:127.0.0.1]"


@pytest.mark.parametrize("host", HOSTS.split())
def test_the_public_rule_refuses_this_machine(host: str) -> None:
    with ScriptedServer([Reply(201)]) as server:
        port = server.url.rpartition(":")[2]
        with pytest.raises(RunError, match=r"an address of this machine.*--http-destinations loopback"):
            send(f"http://{host}:{port}", PUBLIC)
        assert server.seen == []
        assert send(f"http://127.0.0.1:{port}", LOOPBACK) == [None]


@pytest.mark.parametrize("host", ["0", "169.254.169.254", "[fe80::1]", "[::]", "[::ffff:a9fe:a9fe]", "2852039166"])
@pytest.mark.parametrize("rule", [PUBLIC, LOOPBACK, PRIVATE])
def test_metadata_and_unspecified_addresses_are_refused(host: str, rule: EgressRule) -> None:
    with ScriptedServer([Reply(201)]) as server:
        with pytest.raises(RunError, match=r"link-local, cloud metadata.*--http-destinations any"):
            send(f"http://{host}:{server.url.rpartition(':')[2]}", rule)
        assert server.seen == []


@pytest.mark.parametrize("host", ["10.0.0.1", "172.16.0.1", "192.168.0.1", "[fd00::1]"])
def test_private_networks_are_refused_by_default(host: str) -> None:
    with pytest.raises(RunError, match=r"refused: \S+ is an address of a private network.*--http-destinations private"):
        send(f"http://{host}:9")


def test_a_name_is_refused_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_dns(monkeypatch, "169.254.169.254 10.0.0.1")
    with pytest.raises(RunError, match=r"meta\.example has the address 169\.254\.169\.254, a link-local"):
        send("http://meta.example")


def test_the_checked_address_is_the_connected_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([Reply(201)]) as server:
        url = f"http://rebind.example:{server.url.rpartition(':')[2]}"
        asked = answer_dns(monkeypatch, "127.0.0.1", "169.254.169.254")
        assert send(url) == [None]
        assert asked == ["rebind.example"]
        with pytest.raises(RunError, match="was refused"):
            send(url)


def test_refused_addresses_of_a_name_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_dns(monkeypatch, "169.254.169.254 127.0.0.1")
    with ScriptedServer([Reply(201)]) as server:
        assert send(f"http://mixed.example:{server.url.rpartition(':')[2]}") == [None]


def test_a_proxy_does_not_get_refused_destinations(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([Reply(201)]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        answer_dns(monkeypatch, "169.254.169.254")
        for host in ("169.254.169.254", "10.0.0.1", "2852039166", "meta.example"):
            with pytest.raises(RunError, match="was refused"):
                send(f"http://{host}")
        assert proxy.seen == []


def test_a_proxy_gets_names_that_only_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([Reply(201)]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        answer_dns(monkeypatch, "")
        assert send("http://partner.example") == [None]
        assert len(proxy.seen) == 1
