"""Address of the pages of a service that names them in its responses, such as datapipe-local."""

from __future__ import annotations

import re

#: Response header with the path of a resource's page, below the base address. Not part of the interface.
HEADER = "datapipe-pages"
#: A path with the placeholders of the setting ``link``. It cannot lead to another origin.
_PATH = re.compile(r"/(?!/)[A-Za-z0-9/#._~{}-]{1,200}", re.ASCII)


def page_template(base_url: str, path: str | None) -> str | None:
    """
    Return the template of addresses of pages, None if the service names no usable one.

    :param base_url: base address of the service.
    :param path: value of the header.
    """
    if path is None or not _PATH.fullmatch(path) or "{resource}" not in path or "{id}" not in path:
        return None
    return base_url.rstrip("/") + path
