"""Atomic file writes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """
    Write a file atomically, because another process, such as a DAG processor, may read it at any time.

    If the path is a link, its target is written. The mode of an existing file is kept.

    :param path: path of the file, in an existing folder.
    :param text: content, written as UTF-8.
    :raises OSError: if the file can't be written.
    :raises UnicodeEncodeError: if the text has no form in UTF-8.
    """
    content = text.encode()
    place = path.resolve()
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name[:40]}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
            Path(file.name).replace(place)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
