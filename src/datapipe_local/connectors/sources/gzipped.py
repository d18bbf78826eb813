"""Gzip files: decompressed and verified before they are read, because DuckDB does not verify complete files."""

from __future__ import annotations

import gzip
import shutil
import zlib
from typing import TYPE_CHECKING

from datapipe_local.common.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
# Limits against files that are made to fill the disk.
_LARGE = 1 << 30
_MAX_RATIO = 200


def is_named_gzip(name: str) -> bool:
    """Return True if the name of a file ends with ``.gz``."""
    return name.lower().endswith(".gz")


def is_gzip(path: Path) -> bool:
    """Return True if a file has the first bytes of a gzip file."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def unpack(path: Path, out: Path, name: str, check: Callable[[], None]) -> Path:
    """
    Decompress a file, and verify its checksums and its end.

    :param path: The gzip file.
    :param out: The file to write.
    :param name: The name of the gzip file for messages.
    :param check: A function that raises if the file is no longer needed.
    :raises RunError: the file is not a gzip file, is damaged, or becomes too large.
    :return: The decompressed file.
    """
    try:
        if not is_gzip(path):
            raise RunError(f"{name} cannot be unpacked: it is not a gzip file. Compress it, or rename it.")
        packed, size = path.stat().st_size, 0
        with gzip.open(path) as source, out.open("wb") as file:
            while chunk := source.read(_CHUNK):
                check()
                size += len(chunk)
                if size > _LARGE and size > _MAX_RATIO * packed:
                    raise RunError(
                        f"{name} becomes more than {_MAX_RATIO} times as large: unpack it, if that is intended."
                    )
                if len(chunk) > shutil.disk_usage(out.parent).free:
                    raise RunError(f"{name} cannot be unpacked: there is no room for it below {out.parent.parent}.")
                file.write(chunk)
    except EOFError as error:
        raise RunError(f"{name} cannot be unpacked: it is truncated. Compress it again.") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise RunError(f"{name} cannot be unpacked: it is damaged ({error}). Compress it again.") from error
    except OSError as error:
        raise RunError(f"{name} cannot be unpacked: {error.strerror or error}.") from error
    return out
