"""The four ways in which a request to a webhook shows that it may come in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_provider_datapipe.api.errors import ConfigurationError

METHODS = ("none", "basic", "token", "hmac")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
#: Headers that say something else already.
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
    """Whoever knows the address is let in."""

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Give what a request has to carry."""
        return {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return ()


@dataclass(frozen=True, slots=True)
class BasicAuthentication:
    """
    A user's name and password.

    :param username: the name; without a colon, at which it would end.
    :param password: the password.
    """

    username: str
    password: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Give what a request has to carry."""
        return {"Authorization": f"Basic {self._encoded}"}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return (self._encoded, f"{self.username}:{self.password}", self.password)

    @property
    def _encoded(self) -> str:
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """
    A text that stands in a header.

    :param header: the header's name.
    :param token: the text.
    """

    header: str
    token: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Give what a request has to carry."""
        return {self.header: self.token}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that are masked. A service may repeat a token without its scheme, such as ``Bearer``."""
        return (self.token, self.token.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class HmacAuthentication:
    """
    A signature of the body that stands in a header: lowercase hexadecimal HMAC-SHA-256.

    :param header: the header's name.
    :param secret: the key of the signature.
    """

    header: str
    secret: str = field(repr=False)

    def headers(self, body: bytes) -> Mapping[str, str]:
        """Give what a request has to carry. The bytes that are signed are those that are sent."""
        return {self.header: hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return (self.secret,)


Authentication: TypeAlias = NoAuthentication | BasicAuthentication | TokenAuthentication | HmacAuthentication


def authentication_of(method: str, *, username: str, secret: str, header: str) -> Authentication:
    """
    Put together how requests authenticate, from the fields of a connection; what is not given is empty.

    :param method: one of :data:`METHODS`.
    :param username: the user's name, for ``basic``.
    :param secret: the password, token or signing secret.
    :param header: the name of the header, for ``token`` and ``hmac``.
    :raises ConfigurationError: they don't go together. The message holds none of them.
    """
    if method not in METHODS:
        raise ConfigurationError(f"The authentication must be one of {', '.join(METHODS)}.")
    if header and method not in ("token", "hmac"):
        raise ConfigurationError(f"There is a header, which the authentication {method!r} does not use: remove one.")
    if username and method != "basic":
        raise ConfigurationError(f"There is a login, which the authentication {method!r} does not use: remove one.")
    if method == "none":
        # Whoever has set one expects that it is used.
        if secret:
            raise ConfigurationError("There is a password, and the authentication is 'none': set how it is used.")
        return NoAuthentication()
    if not secret:
        raise ConfigurationError(f"The authentication {method!r} needs a secret: set it as the connection's password.")
    if method == "basic":
        if not username or ":" in username:
            raise ConfigurationError("Basic authentication needs a login, without a colon.")
        return BasicAuthentication(username, secret)
    if not _HEADER.fullmatch(header) or header.lower() in _TAKEN:
        raise ConfigurationError(
            f"The authentication {method!r} needs the name of a header of its own, such as X-Signature."
        )
    if method == "hmac":
        return HmacAuthentication(header, secret)
    if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise ConfigurationError(
            "The token does not fit into a header: it needs printable ASCII characters, and no space at the ends."
        )
    return TokenAuthentication(header, secret)
