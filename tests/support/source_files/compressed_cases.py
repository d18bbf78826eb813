"""Cases of gzip files (RFC 1952) and zip archives (PKWARE APPNOTE), with CSV and JSON Lines in them."""

from __future__ import annotations

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Collection
from typing import Any

from tests.support.source_files.cases import Case, Table, encoded
from tests.support.source_files.csv_cases import HEADER, MANY, lines
from tests.support.source_files.references import csv_table, jsonl_table

_GARBAGE = "RFC 1952 says nothing about bytes after the last member; some readers ignore them, others refuse them."
_DAMAGED_BESIDE = "The rows themselves are whole and checked; a reader may refuse the rest."
_NAMES = "The names within an archive do not matter to the rows; a reader may refuse unsafe ones."
_DATA = encoded(lines(9))
_TABLE = csv_table(_DATA)
_BEFORE = encoded([HEADER, "100,before,1.5"])
_JSONL = b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n'


def compressed_cases() -> list[Case]:
    return [*_gzip_cases(), *_zip_cases(), *_zip_patches()]


def _gz(name: str, content: bytes, *tables: Table, file: str = "data.csv.gz", **more: Any) -> Case:
    kind, before = ("jsonl", _JSONL) if "jsonl" in file else ("csv", _BEFORE)
    return _case(f"gz_{name}", file, content, tables, before=gzip.compress(before), origin={"format": kind}, **more)


def _case(
    name: str,
    file: str,
    content: bytes,
    tables: tuple[Table, ...],
    *,
    before: bytes,
    at: int | Collection[int] = (),
    why: str = "",
    **more: Any,
) -> Case:
    """Return a case that must fail without a table, and may fail with a reason."""
    lines = [at] if isinstance(at, int) else at
    return Case(name, file, content, before, tables, not tables or bool(why), lines, why, **more)


def _member(
    data: bytes,
    *,
    flags: int = 0,
    fields: bytes = b"",
    method: int = 8,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    """Return a member of a gzip file according to RFC 1952."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = compressor.compress(data) + compressor.flush()
    crc = zlib.crc32(data) if crc is None else crc
    size = len(data) if size is None else size
    head = struct.pack("<2sBBIBB", b"\x1f\x8b", method, flags, 0, 0, 255)
    return head + fields + body + struct.pack("<II", crc, size & 0xFFFFFFFF)


def _cut_between_rows() -> bytes:
    """Return a gzip file that ends after a whole row, with neither the last block nor the trailer."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    head = _member(b"")[:10]
    return head + compressor.compress(_DATA) + compressor.flush(zlib.Z_FULL_FLUSH)


def _gzip_cases() -> list[Case]:
    good, large = gzip.compress(_DATA), encoded(lines(MANY))
    many = gzip.compress(large)
    half = _DATA.index(b"\n", len(_DATA) // 2) + 1
    two = gzip.compress(_DATA[:half]) + gzip.compress(_DATA[half:])
    members = b"".join(gzip.compress(large[start : start + 40_000]) for start in range(0, len(large), 40_000))
    cases = [
        _gz("valid", good, _TABLE),
        _gz("valid_and_large", many, csv_table(large)),
        _gz("valid_jsonl", gzip.compress(_JSONL), jsonl_table(_JSONL), file="data.jsonl.gz"),
        _gz("two_members", two, _TABLE),
        _gz("many_members", members, csv_table(large)),
        _gz(
            "empty_member_between",
            gzip.compress(_DATA[:half]) + gzip.compress(b"") + gzip.compress(_DATA[half:]),
            _TABLE,
        ),
        _gz("name_of_the_file", _member(_DATA, flags=8, fields=b"data.csv\0"), _TABLE),
        _gz("no_byte", b"", says="not a gzip file"),
        _gz("header_alone", good[:10], says="truncated"),
        _gz("member_without_data", gzip.compress(b"")),
        _gz("cut_within_the_first_block", good[:14], says="truncated"),
        _gz("cut_before_the_trailer", good[:-8], says="truncated"),
        _gz("cut_between_rows", _cut_between_rows(), says="truncated"),
        _gz(
            "large_with_a_changed_byte", _overwritten(many, len(many) // 2, b"\xff\0\xff\0"), says="cannot be unpacked"
        ),
        _gz("second_member_cut", two[:-12], says="truncated"),
        _gz("jsonl_cut", gzip.compress(_JSONL * 2_000)[:-20], file="data.jsonl.gz", says="truncated"),
        _gz("wrong_checksum", _member(_DATA, crc=7), says="damaged"),
        _gz("wrong_size", _member(_DATA, size=7), says="damaged"),
        _gz(
            "wrong_checksum_of_the_second_member", _member(_DATA[:half]) + _member(_DATA[half:], crc=7), says="damaged"
        ),
        _gz("unknown_method", _member(_DATA, method=7)),
        _gz("invalid_block", good[:10] + b"\xff" * 50 + good[-8:]),
        _gz(
            "reserved_flag", _member(_DATA, flags=0x20), _TABLE, why="By RFC 1952 a reader must refuse it; many do not."
        ),
        _gz("wrong_magic", b"\x1f\x8c" + good[2:]),
        _gz("plain_data", _DATA, says="not a gzip file"),
        _gz("zeros_after_the_end", good + b"\0" * 512, _TABLE),
        _gz("name_like_a_pattern", good, _TABLE, file="data[1].csv.gz"),
        _gz("text_after_the_end", good + b"the end", _TABLE, why=_GARBAGE),
        _gz("plain_rows_after_the_end", good + b"10,n10,10.5\n", says="damaged"),
        _gz("zip_named_gz", _zipped(("data.csv", _DATA)), says="is a zip archive"),
        _gz("zlib_stream", zlib.compress(_DATA), says="not a gzip file"),
        _gz("twice", gzip.compress(good)),
        _gz("compressed_and_named_csv", good, _TABLE, file="data.csv"),
        _gz("malformed_line_of_jsonl", gzip.compress(_JSONL + b'{"id": \n'), file="data.jsonl.gz", at=3),
    ]
    return [
        *cases,
        *(_gz(f"cut_after_{size}_bytes", good[:size], says="truncated") for size in range(20, len(good), 40)),
    ]


def _zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def _zip(name: str, content: bytes, *tables: Table, file: str = "data.csv.zip", **more: Any) -> Case:
    member = ("data.jsonl", _JSONL) if "jsonl" in file else ("data.csv", _BEFORE)
    return _case(f"zip_{name}", file, content, tables, before=_zipped(member), **more)


def _zip_cases() -> list[Case]:
    good = _zipped(("data.csv", _DATA))
    inner, packed, outside = ("data.csv", _DATA), gzip.compress(_DATA), "is outside the archive's folder"
    both = csv_table(_DATA + _DATA.split(b"\n", 1)[1])
    streamed = _Stream()
    with zipfile.ZipFile(streamed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.csv", _DATA)
    large = io.BytesIO()
    with (
        zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("data.csv", "w", force_zip64=True) as file,
    ):
        file.write(_DATA)
    return [
        _zip("deflated", good, _TABLE),
        _zip("stored", _zipped(inner, method=zipfile.ZIP_STORED), _TABLE),
        _zip("bzip2", _zipped(inner, method=zipfile.ZIP_BZIP2), _TABLE),
        _zip("lzma", _zipped(inner, method=zipfile.ZIP_LZMA), _TABLE),
        _zip("zip64", large.getvalue(), _TABLE),
        _zip("streamed", streamed.getvalue(), _TABLE),
        _zip("bytes_after_the_end", good + b"the end", _TABLE, why=_DAMAGED_BESIDE),
        _zip("jsonl", _zipped(("data.jsonl", _JSONL)), jsonl_table(_JSONL), file="data.jsonl.zip"),
        _zip("name_in_another_script", _zipped(("\u756a\u53f7 \u00e4.csv", _DATA)), _TABLE),
        _zip("absolute_name", _zipped(("/data_of_the_root.csv", _DATA)), says=outside),
        _zip("name_with_two_dots", _zipped(("../../data_outside.csv", _DATA)), says=outside),
        _zip("name_with_two_dots_and_backslashes", _zipped(("x\\..\\data_outside.csv", _DATA)), says=outside),
        _zip("long_name", _zipped(("n" * 60_000 + ".csv", _DATA)), _TABLE, why=_NAMES),
        _zip("files_of_macos_beside", _zipped(inner, ("__MACOSX/._data.csv", b"\0\5\x16\7")), _TABLE),
        _zip("two_files_as_one", _zipped(("a.csv", _DATA), ("b.csv", _DATA)), both, as_pattern=True),
        _zip(
            "member_of_no_byte_beside",
            _zipped(("a.csv", _DATA), ("b.csv", b"")),
            _TABLE,
            why="It has no header.",
            as_pattern=True,
        ),
        _zip(
            "second_file_with_a_short_row",
            _zipped(("a.csv", _DATA), ("b.csv", encoded(lines(9, line5="5,x")))),
            at=5,
            as_pattern=True,
        ),
        _zip(
            "second_file_with_a_wrong_checksum",
            _patched(_zipped(("a.csv", _DATA), ("b.csv", _DATA)), -1, checksum=7),
            as_pattern=True,
        ),
        _zip("two_files", _zipped(("a.csv", _DATA), ("b.csv", _DATA))),
        _zip("same_name_twice", _zipped(inner, inner), says="several files named 'data.csv'"),
        _zip("no_files", _zipped(), says="holds 0 files"),
        _zip("folders_alone", _zipped(("a/", b""), ("b/c/", b""))),
        _zip("no_byte", b"", says="not a zip file"),
        _zip("member_of_no_byte", _zipped(("data.csv", b""))),
        _zip("archive_within", _zipped(("inner.csv.zip", good)), says="inner.csv.zip in "),
        _zip("gzip_within", _zipped(("data.csv", packed)), _TABLE),
        _zip("damaged_gzip_within", _zipped(("data.csv", packed[:-9])), says="truncated"),
        _zip(
            "second_file_with_a_malformed_line",
            _zipped(("a.jsonl", _JSONL), ("b.jsonl", _JSONL + b"5\n")),
            says="Line 3 of b.jsonl is not one JSON object: it is a number",
            file="data.jsonl.zip",
            as_pattern=True,
        ),
        _zip("plain_data", _DATA, says="not a zip file"),
        _zip("cut_before_the_directory", good[: good.index(b"PK\1\2")], says="not a zip file"),
        _zip("cut_before_the_end_record", good[: good.index(b"PK\5\6")], says="not a zip file"),
        _zip("two_archives", good + _zipped(("other.csv", _DATA)), _TABLE, why=_DAMAGED_BESIDE),
        _zip("malformed_jsonl_within", _zipped(("data.jsonl", _JSONL + b"{\n")), at=3, file="data.jsonl.zip"),
    ]


class _Stream(io.BytesIO):
    """File that cannot seek: sizes and checksums then follow the data."""

    def report(self) -> int:
        raise io.UnsupportedOperation


#: Fields of the headers in an archive: their place and form in the local header, and in the directory.
_FIELDS = {
    "flags": (6, 8, "<H"),
    "method": (8, 10, "<H"),
    "checksum": (14, 16, "<I"),
    "packed": (18, 20, "<I"),
    "size": (22, 24, "<I"),
}


def _patched(archive: bytes, member: int = 0, **fields: int) -> bytes:
    """Return an archive with other values in the headers of a member."""
    changed = bytearray(archive)
    directory = [found.start() for found in re.finditer(b"PK\1\2", archive)][member]
    local = struct.unpack_from("<I", archive, directory + 42)[0]
    for name, value in fields.items():
        in_local, in_directory, form = _FIELDS[name]
        struct.pack_into(form, changed, directory + in_directory, value)
        struct.pack_into(form, changed, local + in_local, value)
    return bytes(changed)


def _overwritten(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def _zip_patches() -> list[Case]:
    good = _zipped(("data.csv", _DATA))
    stored = _zipped(("data.csv", _DATA), method=zipfile.ZIP_STORED)
    one_row = _DATA.index(b"5,n5")
    name, row = good.index(b"data.csv"), stored.index(b"5,n5")
    end = good.index(b"PK\5\6") + 16
    return [
        _zip("wrong_checksum", _patched(good, checksum=7), says="cannot be unpacked"),
        _zip("changed_byte_of_stored_data", _overwritten(stored, row, b"8")),
        _zip("encrypted", _patched(good, flags=1), says="it is encrypted"),
        _zip("unknown_method", _patched(good, method=97)),
        _zip("other_method", _patched(good, method=zipfile.ZIP_BZIP2)),
        _zip("size_too_small", _patched(good, size=one_row)),
        _zip(
            "size_too_small_with_its_checksum",
            _patched(good, size=one_row, checksum=zlib.crc32(_DATA[:one_row])),
            csv_table(_DATA[:one_row]),
            why="The size and the checksum are those of the first rows, and what follows is beside the file.",
        ),
        _zip("size_too_large", _patched(good, size=len(_DATA) + 99), _TABLE, why=_DAMAGED_BESIDE),
        _zip("packed_size_too_large", _patched(good, packed=1_000_000), _TABLE, why=_DAMAGED_BESIDE),
        _zip("said_to_fill_the_disk", _patched(good, size=0xFFFF0000)),
        _zip("other_name_in_the_local_header", _overwritten(good, name, b"x"), _TABLE, why=_DAMAGED_BESIDE),
        _zip("no_local_header", _overwritten(good, 0, b"XX")),
        _zip("directory_out_of_the_file", _overwritten(good, end, struct.pack("<I", 5_000))),
    ]
