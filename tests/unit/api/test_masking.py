"""Masking of secrets: masked forms in text and JSON, and text that stays unchanged."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.masking import Mask, user_info, without_user_info

SECRET = 'canary/key+0 1<456>"789'
MASK = Mask((SECRET,))
OTHER = "other words"

#: Forms of the secret in text. Only these words are masked.
FORMS = {
    "hexadecimal": SECRET.encode().hex(),
    "hexadecimal, upper case": SECRET.encode().hex().upper(),
    "form": SECRET.replace(" ", "+"),
    "percent": quote(SECRET, safe=""),
    "percent, four times": quote(quote(quote(quote(SECRET, safe=""), safe=""), safe=""), safe=""),
    "HTML": "".join(f"&#{ord(each)};" for each in SECRET),
    "HTML in percent": quote("".join(f"&#x{ord(each):x};" for each in SECRET)),
    "escaped": "".join(f"\\u{ord(each):04x}" for each in SECRET),
    "escaped bytes": "".join(f"\\x{ord(each):02X}" for each in SECRET),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_masked_and_other_words_are_not(form: str) -> None:
    assert MASK.in_text(f"{OTHER} {FORMS[form]}\n{OTHER}") == f"{OTHER} ***\n{OTHER}"


@pytest.mark.parametrize("for_urls", [False, True])
@pytest.mark.parametrize(
    ("prefix", "masked"),
    # Base64 characters that also depend on the surrounding text are not masked.
    [("", "***IGFuZCBtb3Jl"), ("x", "eG***SBhbmQgbW9yZQ=="), ("x:", "eDp***kgYW5kIG1vcmU=")],
)
def test_base64_is_masked_at_each_offset(prefix: str, masked: str, *, for_urls: bool) -> None:
    secret = "canary>>>???key"
    written = base64.b64encode(f"{prefix}{secret} and more".encode()).decode()
    if for_urls:
        written = written.replace("+", "-").replace("/", "_")
    assert Mask((secret,)).in_text(f"{OTHER} {written} {OTHER}") == f"{OTHER} {masked} {OTHER}"


@pytest.mark.parametrize("encoded", [json.dumps(SECRET), SECRET.replace("<", "&lt;")])
def test_an_encoded_secret_with_spaces_masks_the_whole_text(encoded: str) -> None:
    assert MASK.in_text(f"{OTHER} {encoded}") == "***"


def test_text_without_the_secret_stays() -> None:
    text = f"{OTHER} %41 &amp; \\u0041 \\n 100 % {SECRET[:-1]}"
    assert MASK.in_text(text) == text
    assert Mask(()).in_text(text) == text
    assert Mask(("",)).in_text(text) == text


def test_longer_secret_is_masked_first() -> None:
    assert Mask(("password", "password-2")).in_text("password-2 and password") == "*** and ***"


def test_short_secrets_are_masked_in_text_only() -> None:
    mask = Mask(("key-1",))
    assert mask.in_text("the key-1") == "the ***"
    assert mask.in_json(b'{"id": "key-1"}') == b'{"id": "key-1"}'
    assert Mask(("12345678",)).in_json(b'{"id": "12345678"}') == b'{"id": "***"}'
    assert Mask(("1234567",)).in_json(b'{"id": "1234567"}') == b'{"id": "1234567"}'


def test_json_is_masked_in_names_and_values() -> None:
    mask = Mask(("password-1",))
    body = {"a password-1": [1, None, True, "ok", {"deep": "is%20password%2D1"}], "é": "password-1"}
    assert json.loads(mask.in_json(json.dumps(body).encode())) == {
        "a ***": [1, None, True, "ok", {"deep": "***"}],
        "é": "***",
    }
    assert mask.in_json('{"é": "password-1"}'.encode()) == '{"é": "***"}'.encode()


@pytest.mark.parametrize("body", [b'["\\u0070assword-1"]', b'["&#112;assword-1"]', b'["%70assword-1"]'])
def test_an_encoded_secret_in_json_is_masked(body: bytes) -> None:
    assert Mask(("password-1",)).in_json(body) == b'["***"]'


@pytest.mark.parametrize("body", [b'{"id":  "a \\u00e9 %41 &lt; b"}', b'{ "id" : 1 }', b"<html>", b"\xff\xfe %41"])
def test_a_body_without_a_secret_is_returned_unchanged(body: bytes) -> None:
    assert Mask(("password-1",)).in_json(body) is body


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        (b"<p>password-1</p>", b"<p>***</p>"),
        (b"<p>password%2D1 twice</p>", b"*** twice</p>"),
        (b"\xff password-1", "\N{REPLACEMENT CHARACTER} ***".encode()),
        (b"[" * 100_000 + b"password-1", b"[" * 100_000 + b"***"),
    ],
    ids=["HTML", "percent", "not UTF-8", "nested"],
)
def test_a_body_that_is_not_json_is_masked_as_text(body: bytes, masked: bytes) -> None:
    assert Mask(("password-1",)).in_json(body) == masked


@given(before=st.text(), after=st.text(), secret=st.text('abcdefg0123456789/+<>&%\\" é', min_size=8, max_size=20))
def test_no_text_contains_the_secret_after_masking(before: str, after: str, secret: str) -> None:
    assert secret not in Mask((secret,)).in_text(before + secret + after)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        (None, set()),
        ("http://proxy:3128", set()),
        ("http://token@proxy:3128", {"token"}),
        ("http://user:pass@proxy", {"user:pass", "pass"}),
        ("http://user:pa:ss@proxy", {"user:pa:ss", "pa:ss"}),
        ("http://user:p%40ss@proxy", {"user:p%40ss", "user:p@ss", "p%40ss", "p@ss"}),
    ],
)
def test_credentials_of_a_proxy(url: str | None, parts: set[str]) -> None:
    assert set(user_info(url)) == parts


def test_credentials_in_urls_are_masked() -> None:
    text = "http://user:pass@proxy:3128/path and https://token@host, not a@b or http://host/a@b"
    assert without_user_info(text) == "http://***@proxy:3128/path and https://***@host, not a@b or http://host/a@b"
