"""Settings of a connection."""

from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import Settings, environment_proxy

KEY = "key-that-must-not-show"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "must be a URL"),
        ("api.example.com", "must be a URL"),
        ("ftp://api.example.com", "must be a URL"),
        ("https://u:p@api.example.com", "must not contain a user"),
        ("https://api.example.com?x=1", "must not contain"),
        ("http://api.example.com", "Plain http"),
        ("http://[::1", "not a URL"),
        ("https://api..example.com", "invalid host or port"),
        (f"https://{'a' * 64}.example.com", "invalid host or port"),
        ("https://api.example.com:65536", "invalid host or port"),
    ],
)
def test_invalid_base_url_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Settings(base_url=url, api_key=KEY)


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.example",
        "127.0.0.1:80@evil.example",
        "localhost@evil.example",
        "evil.example\\@localhost",
        "localhost.evil.example",
        "localhost%00.evil.example",
        "localhost\0.evil.example",
        "localhost\t.evil.example",
        "localhost,evil.example",
        "localhost ",
        "localhost:port",
        "localhost:\u0668\u0660:1",
        "[::1]:80:80",
        "[fe80::1%25eth0]",
        "[::ffff:127.0.0.1]",
        "\uff4cocalhost",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "",
    ],
)
def test_plain_http_is_refused_for_hosts_like_loopback(host: str) -> None:
    with pytest.raises(ConfigurationError):
        Settings(base_url=f"http://{host}/v1", api_key=KEY)


def test_valid_base_urls() -> None:
    for url in ("https://api.example.com/v1", "http://localhost:1", "http://127.0.0.1", "http://[::1]:9"):
        assert KEY not in repr(Settings(base_url=url, api_key=KEY))
    Settings(base_url="http://api.example.com", api_key=KEY, allow_plain_http=True)


@pytest.mark.parametrize("key", ["", "a\nb", "schlüssel", " canary", "canary "])
def test_key_with_invalid_characters_is_refused_and_masked(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(base_url="https://api.example.com", api_key=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize(
    ("timeout", "connect_timeout", "limit"),
    [
        (60, 10, 10),
        # Less than the whole timeout, so that a connect timeout shows that nothing was sent.
        (10, 10, 9),
        (0.5, 10, 0.45),
    ],
)
def test_connect_limit_is_below_the_timeout(timeout: float, connect_timeout: float, limit: float) -> None:
    settings = Settings("http://127.0.0.1", KEY, timeout=timeout, connect_timeout=connect_timeout)
    assert settings.connect_limit == limit


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
    settings = Settings("https://api.example.com", KEY, proxy=address)
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
        Settings("https://api.example.com", KEY, proxy=address)


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
