"""Settings of a connection."""

from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import Settings, environment_proxy


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
def test_address_of_a_proxy_is_accepted_and_not_shown(address: str) -> None:
    settings = Settings("https://api.example.com", "key", proxy=address)
    assert settings.proxy == address
    assert "proxy" not in repr(settings)


@pytest.mark.parametrize(
    "address",
    [
        "proxy.example:3128",
        "socks5://proxy.example:1080",
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
    with pytest.raises(ConfigurationError, match="proxy must be a URL"):
        Settings("https://api.example.com", "key", proxy=address)


@pytest.mark.parametrize(
    ("entry", "url", "is_bypassed"),
    [
        ("api.internal", "https://api.internal:8443/v1", True),
        (".internal", "https://api.internal", True),
        ("other, api.internal:8443", "https://api.internal:8443", True),
        ("api.internal:8443", "https://api.internal:9443", False),
        ("fd00::1", "https://[fd00::1]:8443", True),
        ("[fd00::1]", "https://[fd00::1]:8443", True),
        ("[fd00::1]", "https://[fd00::2]", False),
    ],
)
def test_no_proxy_lists_hosts_with_and_without_ports(
    entry: str, url: str, is_bypassed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": entry}.items():
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == (None if is_bypassed else "http://proxy.example:3128")
