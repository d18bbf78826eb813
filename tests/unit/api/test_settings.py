"""Settings of a connection."""

from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.settings import is_proxy


@pytest.mark.parametrize(
    "address",
    [
        "http://proxy.example",
        "https://proxy.example",
        "http://proxy.example/",
        "http://proxy.example:3128",
        "http://proxy.example:65535",
        "http://user:password@proxy.example:3128",
        "http://[::1]:3128",
    ],
)
def test_address_of_a_proxy_is_accepted(address: str) -> None:
    assert is_proxy(address)


@pytest.mark.parametrize(
    "address",
    [
        "socks5://proxy.example",
        "HTTPS//proxy.example",
        "http://",
        "http://proxy.example:65536",
        "http://proxy.example:99999",
        "http://user:pass/word@proxy.example",
        "http://proxy.example/path",
        "http://proxy.example?query",
        "http://proxy.example#fragment",
        "http://proxy.example/#fragment",
        "http://[::1",
    ],
)
def test_invalid_proxy_address_is_refused(address: str) -> None:
    assert not is_proxy(address)
