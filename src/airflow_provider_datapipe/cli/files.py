"""Atomic file writes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from airflow_provider_datapipe.cli.command import CommandError


def write(path: Path, text: str) -> None:
    """
    Write a file atomically, because a DAG processor may read it at any time.

    :param path: path of the file.
    :param text: content, written as UTF-8.
    :raises CommandError: if the file can't be written.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            try:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror or error}.") from None
    except UnicodeEncodeError as error:
        wrong = ascii(error.object[error.start : error.end])
        raise CommandError(f"{path} can't be written: no text in UTF-8 has {wrong} in it.") from None


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
