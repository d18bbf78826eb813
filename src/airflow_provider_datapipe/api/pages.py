"""Links to web pages of resources, for services such as datapipe-local that send a URL template in a header."""

from __future__ import annotations

import re

#: Response header with the path of a resource page, relative to the base URL. Not part of the interface.
HEADER = "datapipe-pages"
#: Allowed paths, with the placeholders of the ``link`` setting. A path cannot refer to another origin.
_PATH = re.compile(r"/(?!/)[A-Za-z0-9/#._~{}-]{1,200}", re.ASCII)


def page_template(base_url: str, path: str | None) -> str | None:
    """
    Return the URL template of resource pages, or None if the header is absent or invalid.

    :param base_url: base URL of the service.
    :param path: header value.
    """
    if path is None or not _PATH.fullmatch(path) or "{resource}" not in path or "{id}" not in path:
        return None
    return base_url.rstrip("/") + path
