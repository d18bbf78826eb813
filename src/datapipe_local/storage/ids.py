"""Identifiers: random IDs, IDs derived from names, and run IDs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
import string
from typing import NamedTuple

from datapipe_local.common.errors import BadRequestError
from datapipe_local.storage.clock import Timestamp

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 14
_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def new_id() -> str:
    """Return a new random ID, such as ``OoORhGXUVjsqFG``."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def derived_id(*names: str) -> str:
    """
    Return an ID that looks random and is always the same for the same names.

    Seed entries without an ID get such an ID, so that applying the seed again finds the resource.
    """
    number = int.from_bytes(hashlib.sha256("\0".join(names).encode()).digest(), "big")
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


class RunId(NamedTuple):
    """Decoded run ID. For clients, run IDs are opaque text."""

    subject_id: str
    started_at: Timestamp

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(f"{self.subject_id}|{self.started_at}".encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> RunId:
        """
        Parse a run ID.

        :param text: The text as received, possibly anything.
        :raises BadRequestError: it is not a run ID.
        """
        try:
            plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            plain = ""
        subject_id, bar, started_at = plain.rpartition("|")
        run_id = cls(subject_id, started_at)
        if not (bar and subject_id and _START.fullmatch(started_at)) or str(run_id) != text:
            raise BadRequestError(f"{text[:100]!r} is not the ID of a run.", error_code="invalid_run_id")
        return run_id
