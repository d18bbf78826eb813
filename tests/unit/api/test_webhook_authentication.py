"""Authentication of webhook requests, and protection of its secrets."""

from __future__ import annotations

import base64
import subprocess

import pytest

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.webhook import Authentication, authentication_of

SECRET = "canary-s3cret"
BODY = '{"name":"Zoë"}'.encode()


def make(method: str, *, username: str = "", secret: str = "", header: str = "") -> Authentication:
    return authentication_of(method, username=username, secret=secret, header=header)


@pytest.mark.parametrize(
    ("made", "headers"),
    [
        (make("none"), {}),
        (
            make("basic", username="ann", secret="p:ss wörd"),
            {"Authorization": f"Basic {base64.b64encode('ann:p:ss wörd'.encode()).decode()}"},
        ),
        (make("token", secret="Bearer x", header="X-Token"), {"X-Token": "Bearer x"}),
    ],
    ids=["none", "basic", "token"],
)
def test_headers_authenticate_a_request(made: Authentication, headers: dict[str, str]) -> None:
    assert made.headers(BODY) == headers


def test_hmac_equals_that_of_openssl() -> None:
    (value,) = make("hmac", secret=SECRET, header="X-Signature").headers(BODY).values()
    made = subprocess.run(  # noqa: S603 - fixed command
        ["openssl", "dgst", "-sha256", "-hmac", SECRET, "-r"],  # noqa: S607 - openssl from PATH
        input=BODY,
        capture_output=True,
        check=True,
    )
    assert value == made.stdout.decode().split()[0]
    assert value == value.lower()


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
