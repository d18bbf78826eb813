"""Authentication of webhook requests, and protection of its secrets."""

from __future__ import annotations

import base64

import pytest

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.webhook import Authentication, authentication_of

SECRET = "canary-s3cret"


def make(method: str, *, username: str = "", secret: str = "", header: str = "") -> Authentication:
    return authentication_of(method, username=username, secret=secret, header=header)


def test_password_may_contain_a_colon_and_non_ascii_characters() -> None:
    encoded = base64.b64encode("ann:p:ss wörd".encode()).decode()
    made = make("basic", username="ann", secret="p:ss wörd")
    assert made.headers(b"{}") == {"Authorization": f"Basic {encoded}"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "digest"}, "must be one of none, basic, token, hmac"),
        ({"method": "none", "secret": SECRET}, "set another authentication"),
        ({"method": "none", "username": "ann"}, "uses no login"),
        ({"method": "none", "header": "X-A"}, "uses no header"),
        ({"method": "basic", "secret": SECRET}, "requires a login"),
        ({"method": "basic", "secret": SECRET, "username": "a:b"}, "without a colon"),
        ({"method": "basic", "username": "ann"}, "requires a secret"),
        ({"method": "token", "header": "X-A"}, "requires a secret"),
        ({"method": "token", "secret": SECRET}, "name of a custom header"),
        ({"method": "token", "secret": SECRET, "header": "a b"}, "name of a custom header"),
        ({"method": "token", "secret": SECRET, "header": "X-A\r\nX-B"}, "name of a custom header"),
        ({"method": "token", "secret": SECRET, "header": "Content-Type"}, "name of a custom header"),
        ({"method": "token", "secret": f"{SECRET}\r\nX-B: 1", "header": "X-A"}, "must consist of printable ASCII"),
        ({"method": "token", "secret": f" {SECRET}", "header": "X-A"}, "without leading or trailing spaces"),
        ({"method": "token", "secret": f"{SECRET}ü", "header": "X-A"}, "ASCII"),
        ({"method": "hmac", "secret": SECRET}, "name of a custom header"),
        ({"method": "hmac", "header": "X-A"}, "requires a secret"),
        ({"method": "hmac", "header": "X-A", "secret": SECRET, "username": "ann"}, "uses no login"),
    ],
)
def test_contradictory_settings_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refusal:
        make(**fields)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "made",
    [
        make("basic", username="ann", secret=SECRET),
        make("token", secret=SECRET, header="X-A"),
        make("hmac", secret=SECRET, header="X-A"),
    ],
)
def test_representation_contains_no_secret(made: Authentication) -> None:
    assert SECRET not in repr(made)
    assert SECRET in made.secrets
