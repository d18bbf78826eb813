"""Authentication of webhook requests, and secrets that never appear."""

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


def test_hmac_is_what_openssl_makes() -> None:
    (value,) = make("hmac", secret=SECRET, header="X-Signature").headers(BODY).values()
    made = subprocess.run(  # noqa: S603 - our own command
        ["openssl", "dgst", "-sha256", "-hmac", SECRET, "-r"],  # noqa: S607
        input=BODY,
        capture_output=True,
        check=True,
    )
    assert value == made.stdout.decode().split()[0]
    assert value == value.lower()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"method": "digest"}, "must be one of none, basic, token, hmac"),
        ({"method": "none", "secret": SECRET}, "set how it is used"),
        ({"method": "none", "username": "ann"}, "a login, which"),
        ({"method": "none", "header": "X-A"}, "a header, which"),
        ({"method": "basic", "secret": SECRET}, "needs a login"),
        ({"method": "basic", "secret": SECRET, "username": "a:b"}, "without a colon"),
        ({"method": "basic", "username": "ann"}, "needs a secret"),
        ({"method": "token", "header": "X-A"}, "needs a secret"),
        ({"method": "token", "secret": SECRET}, "name of a header"),
        ({"method": "token", "secret": SECRET, "header": "a b"}, "name of a header"),
        ({"method": "token", "secret": SECRET, "header": "X-A\r\nX-B"}, "name of a header"),
        ({"method": "token", "secret": SECRET, "header": "Content-Type"}, "name of a header"),
        ({"method": "token", "secret": f"{SECRET}\r\nX-B: 1", "header": "X-A"}, "does not fit into a header"),
        ({"method": "token", "secret": f" {SECRET}", "header": "X-A"}, "no space at the ends"),
        ({"method": "token", "secret": f"{SECRET}ü", "header": "X-A"}, "ASCII"),
        ({"method": "hmac", "secret": SECRET}, "name of a header"),
        ({"method": "hmac", "header": "X-A"}, "needs a secret"),
        ({"method": "hmac", "header": "X-A", "secret": SECRET, "username": "ann"}, "a login, which"),
    ],
)
def test_what_does_not_go_together_is_explained(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refusal:
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
def test_no_secret_is_shown(made: Authentication) -> None:
    assert SECRET not in repr(made)
    assert SECRET in made.secrets
