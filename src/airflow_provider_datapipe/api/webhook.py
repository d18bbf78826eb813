"""The four authentication methods of webhook requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import is_header_value

METHODS = ("none", "basic", "token", "hmac")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
#: Headers with another meaning, which cannot carry a token or signature.
_TAKEN = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


@dataclass(frozen=True, slots=True)
class NoAuthentication:
    """No authentication: the URL is the only credential."""

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Return the authentication headers for a request."""
        return {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts to mask in messages and logs."""
        return ()


@dataclass(frozen=True, slots=True)
class BasicAuthentication:
    """
    HTTP basic authentication.

    :param username: user name, without a colon.
    :param password: the password.
    """

    username: str
    password: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Return the authentication headers for a request."""
        return {"Authorization": f"Basic {self._encoded}"}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts to mask in messages and logs."""
        return (self._encoded, f"{self.username}:{self.password}", self.password)

    @property
    def _encoded(self) -> str:
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """
    Token in a header.

    :param header: name of the header.
    :param token: the token.
    """

    header: str
    token: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Return the authentication headers for a request."""
        return {self.header: self.token}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts to mask in messages and logs, including the token without its scheme (such as ``Bearer``)."""
        return (self.token, self.token.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class HmacAuthentication:
    """
    HMAC-SHA-256 signature of the body in a header, in lowercase hexadecimal.

    :param header: name of the header.
    :param secret: the signing key.
    """

    header: str
    secret: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Return the authentication headers for a request. The body must be sent byte for byte as signed."""
        return {self.header: hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts to mask in messages and logs."""
        return (self.secret,)


Authentication: TypeAlias = NoAuthentication | BasicAuthentication | TokenAuthentication | HmacAuthentication


def authentication_of(method: str, *, username: str, secret: str, header: str) -> Authentication:
    """
    Return the authentication for the fields of a connection. Absent fields are empty strings.

    :param method: one of :data:`METHODS`.
    :param username: user name, for ``basic``.
    :param secret: password, token or signing key.
    :param header: name of the header, for ``token`` and ``hmac``.
    :raises ConfigurationError: if a field is missing, invalid or not used by the method. The message has no values.
    """
    if method not in METHODS:
        raise ConfigurationError(f"The authentication must be one of {', '.join(METHODS)}.")
    if header and method not in ("token", "hmac"):
        raise ConfigurationError(f"The authentication {method!r} uses no header: remove the header.")
    if username and method != "basic":
        raise ConfigurationError(f"The authentication {method!r} uses no login: remove the login.")
    if method == "none":
        # A secret that would be ignored is a configuration error.
        if secret:
            raise ConfigurationError(
                "There is a password, but the authentication is 'none': set another authentication."
            )
        return NoAuthentication()
    if not secret:
        raise ConfigurationError(
            f"The authentication {method!r} requires a secret: set it as the connection's password."
        )
    if method == "basic":
        if not username or ":" in username:
            raise ConfigurationError("Basic authentication requires a login without a colon.")
        return BasicAuthentication(username, secret)
    if not _HEADER.fullmatch(header) or header.lower() in _TAKEN:
        raise ConfigurationError(
            f"The authentication {method!r} requires the name of a custom header, such as X-Signature."
        )
    if method == "hmac":
        return HmacAuthentication(header, secret)
    if not is_header_value(secret):
        raise ConfigurationError(
            "The token must consist of printable ASCII characters, without leading or trailing spaces."
        )
    return TokenAuthentication(header, secret)
