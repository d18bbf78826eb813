"""Common frame of all pages: head, style and security headers."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources

STYLE = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def frame(title: str, content: str) -> str:
    """
    Return a complete HTML page.

    :param title: Title as plain text.
    :param content: Content as HTML.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)} · datapipe-local</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )


def headers(*targets: str) -> dict[str, str]:
    """
    Return the response headers of a page.

    :param targets: Additional origins that the form may lead to, including by redirect.
    """
    policy = {
        "default-src": "'none'",
        "style-src": f"'sha256-{_STYLE_HASH}'",
        "img-src": "data:",
        "form-action": " ".join(["'self'", *targets]),
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        # The URL is a secret, so keep it out of the Referer header and caches.
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
