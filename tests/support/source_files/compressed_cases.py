"""Cases of gzip files (RFC 1952) and zip archives (PKWARE APPNOTE), with CSV and JSON Lines in them."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Collection
from typing import Any

from tests.support.source_files.cases import Case, Table
from tests.support.source_files.csv_sources import MANY, joined, lines
from tests.support.source_files.references import csv_table, jsonl_table

_GARBAGE = "RFC 1952 says nothing about bytes after the last member; some readers ignore them, others refuse them."
_MISNAMED = "The name is wrong, and the rows are whole."
_DAMAGED_BESIDE = "The rows themselves are whole and checked; a reader may refuse the rest."
_NAMES = "The names within an archive do not matter to the rows; a reader may refuse unsafe ones."
_DATA = joined(lines(9)).encode()
_TABLE = csv_table(_DATA)
_BEFORE = joined(["id,name,amount", "100,before,1.5"]).encode()
_JSONL = b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n'


def compressed_cases() -> list[Case]:
    return [*_gzip_cases(), *_zip_cases(), *_zip_patches()]


def _gz(name: str, content: bytes, *tables: Table, why: str = "", at: Collection[int] = (), **more: Any) -> Case:
    """Return a case of a gzip file. Without a table it must fail; with a reason it may fail."""
    may_fail = not tables or bool(why)
    file = more.get("file", "data.csv.gz")
    origin = {"format": "jsonl" if "jsonl" in file else "csv"}
    before = more.get("before", gzip.compress(b'{"id": 100, "name": "x"}\n' if "jsonl" in file else _BEFORE))
    return Case(f"gz_{name}", file, content, before, tables, may_fail, at, why, origin)


def _member(
    data: bytes,
    *,
    flags: int = 0,
    fields: bytes = b"",
    method: int = 8,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    """Return a member of a gzip file, as RFC 1952 describes it."""
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
    good = gzip.compress(_DATA)
    many = gzip.compress(joined(lines(60_000)).encode())
    half = _DATA.index(b"\n", len(_DATA) // 2) + 1
    two = gzip.compress(_DATA[:half]) + gzip.compress(_DATA[half:])
    large = joined(lines(MANY)).encode()
    members = b"".join(gzip.compress(large[start : start + 40_000]) for start in range(0, len(large), 40_000))
    extra = struct.pack("<H", 6) + b"AB\x02\0xy"
    damaged = bytearray(many)
    damaged[len(many) // 2] ^= 0xFF
    cases = [
        _gz("valid", good, _TABLE),
        _gz("valid_and_large", many, csv_table(joined(lines(60_000)).encode())),
        _gz("valid_jsonl", gzip.compress(_JSONL), jsonl_table(_JSONL), file="data.jsonl.gz"),
        _gz("stored_blocks", gzip.compress(_DATA, 0), _TABLE),
        _gz("two_members", two, _TABLE),
        _gz(
            "two_members_cut_within_a_row", gzip.compress(_DATA[: half + 3]) + gzip.compress(_DATA[half + 3 :]), _TABLE
        ),
        _gz("many_members", members, csv_table(large)),
        _gz("empty_member_first", gzip.compress(b"") + good, _TABLE),
        _gz("empty_member_last", good + gzip.compress(b""), _TABLE),
        _gz(
            "empty_member_between",
            gzip.compress(_DATA[:half]) + gzip.compress(b"") + gzip.compress(_DATA[half:]),
            _TABLE,
        ),
        _gz("name_of_the_file", _member(_DATA, flags=8, fields=b"data.csv\0"), _TABLE),
        _gz("comment", _member(_DATA, flags=16, fields=b"made by hand\0"), _TABLE),
        _gz("extra_field", _member(_DATA, flags=4, fields=extra), _TABLE),
        _gz("all_fields", _member(_DATA, flags=28, fields=extra + b"data.csv\0note\0"), _TABLE),
        _gz("no_byte", b""),
        _gz("header_alone", good[:10]),
        _gz("cut_within_the_header", good[:5]),
        _gz("one_byte", good[:1]),
        _gz("member_without_data", gzip.compress(b"")),
        _gz("cut_within_the_first_block", good[:14]),
        _gz("cut_in_the_middle", good[: len(good) // 2]),
        _gz("cut_before_the_trailer", good[:-8]),
        _gz("cut_before_the_size", good[:-4]),
        _gz("cut_by_one_byte", good[:-1]),
        _gz("cut_between_rows", _cut_between_rows()),
        _gz("large_cut_in_the_middle", many[: len(many) // 2]),
        _gz("large_cut_near_the_end", many[:-2_000]),
        _gz("large_cut_before_the_trailer", many[:-8]),
        _gz("large_with_a_changed_byte", bytes(damaged)),
        _gz("second_member_cut", two[:-12]),
        _gz("second_member_cut_in_its_header", gzip.compress(_DATA[:half]) + gzip.compress(_DATA[half:])[:6]),
        _gz("jsonl_cut", gzip.compress(_JSONL * 2_000)[:-20], file="data.jsonl.gz"),
        _gz("wrong_checksum", _member(_DATA, crc=7)),
        _gz("wrong_checksum_of_jsonl", _member(_JSONL, crc=7), file="data.jsonl.gz"),
        _gz("wrong_size", _member(_DATA, size=7)),
        _gz("wrong_checksum_of_the_first_member", _member(_DATA[:half], crc=7) + _member(_DATA[half:])),
        _gz("wrong_checksum_of_the_second_member", _member(_DATA[:half]) + _member(_DATA[half:], crc=7)),
        _gz("wrong_size_of_the_first_member", _member(_DATA[:half], size=7) + _member(_DATA[half:])),
        _gz("unknown_method", _member(_DATA, method=7)),
        _gz("invalid_block", good[:10] + b"\xff" * 50 + good[-8:]),
        _gz(
            "reserved_flag", _member(_DATA, flags=0x20), _TABLE, why="By RFC 1952 a reader must refuse it; many do not."
        ),
        _gz("wrong_magic", b"\x1f\x8c" + good[2:]),
        _gz("plain_data", _DATA, _TABLE, why=_MISNAMED),
        _gz("plain_jsonl", _JSONL, jsonl_table(_JSONL), why=_MISNAMED, file="data.jsonl.gz"),
        _gz("zeros_after_the_end", good + b"\0" * 1_024, _TABLE, why=_GARBAGE),
        _gz("text_after_the_end", good + b"the end", _TABLE, why=_GARBAGE),
        _gz("plain_rows_after_the_end", good + b"10,n10,10.5\n"),
        _gz("zip_named_gz", _zipped(("data.csv", _DATA))),
        _gz("zlib_stream", zlib.compress(_DATA)),
        _gz("twice", gzip.compress(good)),
        _gz("compressed_and_named_csv", good, _TABLE, why=_MISNAMED, file="data.csv", before=_BEFORE),
        _gz(
            "compressed_and_named_jsonl",
            gzip.compress(_JSONL),
            jsonl_table(_JSONL),
            why=_MISNAMED,
            file="data.jsonl",
            before=b'{"id": 100, "name": "x"}\n',
        ),
        _gz("short_row_within", gzip.compress(joined(lines(9, line5="5,x")).encode()), at=[5]),
        _gz(
            "long_row_within_beyond_the_sample",
            gzip.compress(joined(lines(MANY, line24000="1,2,3,4")).encode()),
            at=[24_000],
        ),
        _gz(
            "unclosed_quote_within",
            gzip.compress(joined(lines(MANY, line24000='1,"a,2')).encode()),
            at=[24_000, MANY, MANY + 1],
        ),
        _gz("invalid_utf_8_within", gzip.compress(_DATA + b"10,\xff,1.5\n"), at=[10]),
        _gz("malformed_line_of_jsonl", gzip.compress(_JSONL + b'{"id": \n'), file="data.jsonl.gz", at=[3]),
    ]
    return [*cases, *(_gz(f"cut_after_{size}_bytes", good[:size]) for size in range(20, len(good), 25))]


def _zipped(
    *members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"", **more: Any
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, **more) as archive:
        archive.comment = comment
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def _zip(name: str, content: bytes, *tables: Table, why: str = "", at: Collection[int] = (), **more: Any) -> Case:
    """Return a case of an archive. Without a table it must fail; with a reason it may fail."""
    may_fail = not tables or bool(why)
    file = more.get("file", "data.csv.zip")
    before = more.get("before", _zipped(("data.csv", _BEFORE)))
    return Case(f"zip_{name}", file, content, before, tables, may_fail, at, why, more.get("origin") or {})


def _zip_cases() -> list[Case]:
    good = _zipped(("data.csv", _DATA))
    inner = ("data.csv", _DATA)
    both = csv_table(_DATA + _DATA.split(b"\n", 1)[1])
    streamed = io.BytesIO()
    with zipfile.ZipFile(_Unseekable(streamed), "w", zipfile.ZIP_DEFLATED) as archive:
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
        _zip("comment", _zipped(inner, comment=b"made by hand"), _TABLE),
        _zip("bytes_before_the_begin", b"#!/bin/sh\nexit\n" + good, _TABLE, why=_DAMAGED_BESIDE),
        _zip("bytes_after_the_end", good + b"the end", _TABLE, why=_DAMAGED_BESIDE),
        _zip(
            "jsonl",
            _zipped(("data.jsonl", _JSONL)),
            jsonl_table(_JSONL),
            file="data.jsonl.zip",
            before=_zipped(("data.jsonl", b'{"id": 100, "name": "x"}\n')),
        ),
        _zip("name_in_another_script", _zipped(("\u756a\u53f7 \u00e4.csv", _DATA)), _TABLE),
        _zip("name_in_a_folder", _zipped(("a/b/data.csv", _DATA)), _TABLE),
        _zip("folders_beside", _zipped(("a/", b""), ("a/data.csv", _DATA)), _TABLE),
        _zip("absolute_name", _zipped(("/data_of_the_root.csv", _DATA)), _TABLE, why=_NAMES),
        _zip("name_with_two_dots", _zipped(("../../data_outside.csv", _DATA)), _TABLE, why=_NAMES),
        _zip("name_of_another_system", _zipped(("C:\\data\\data.csv", _DATA)), _TABLE, why=_NAMES),
        _zip("long_name", _zipped(("n" * 60_000 + ".csv", _DATA)), _TABLE, why=_NAMES),
        _zip("files_of_macos_beside", _zipped(inner, ("__MACOSX/._data.csv", b"\0\5\x16\7")), _TABLE),
        _zip("two_files_as_one", _zipped(("a.csv", _DATA), ("b.csv", _DATA)), both, origin={"files": "{path}"}),
        _zip(
            "member_of_no_byte_beside",
            _zipped(("a.csv", _DATA), ("b.csv", b"")),
            _TABLE,
            why="It has no header.",
            origin={"files": "{path}"},
        ),
        _zip(
            "second_file_with_a_short_row",
            _zipped(("a.csv", _DATA), ("b.csv", joined(lines(9, line5="5,x")).encode())),
            at=[5],
            origin={"files": "{path}"},
        ),
        _zip(
            "second_file_with_an_unclosed_quote",
            _zipped(("a.csv", _DATA), ("b.csv", joined(lines(9, line5='5,"x,1')).encode())),
            at=[5, 9, 10],
            origin={"files": "{path}"},
        ),
        _zip(
            "second_file_with_a_wrong_checksum",
            _patched(_zipped(("a.csv", _DATA), ("b.csv", _DATA)), -1, checksum=7),
            origin={"files": "{path}"},
        ),
        _zip("two_files", _zipped(("a.csv", _DATA), ("b.csv", _DATA))),
        _zip("same_name_twice", _zipped(inner, inner)),
        _zip("no_files", _zipped()),
        _zip("folders_alone", _zipped(("a/", b""), ("b/c/", b""))),
        _zip("no_byte", b""),
        _zip("member_of_no_byte", _zipped(("data.csv", b""))),
        _zip("archive_within", _zipped(("inner.csv.zip", good))),
        _zip("gzip_within", _zipped(("data.csv.gz", gzip.compress(_DATA))), _TABLE, why="A reader may unpack it, too."),
        _zip("plain_data", _DATA),
        _zip("gzip_named_zip", gzip.compress(_DATA)),
        _zip("cut_in_the_middle", good[: len(good) // 2]),
        _zip("cut_by_one_byte", good[:-1]),
        _zip("cut_before_the_directory", good[: good.index(b"PK\1\2")]),
        _zip("cut_before_the_end_record", good[: good.index(b"PK\5\6")]),
        _zip("cut_begin", good[10:]),
        _zip("end_record_alone", good[good.index(b"PK\5\6") :]),
        _zip("two_archives", good + _zipped(("other.csv", _DATA)), _TABLE, why=_DAMAGED_BESIDE),
        _zip("short_row_within", _zipped(("data.csv", joined(lines(9, line5="5,x")).encode())), at=[5]),
        _zip(
            "long_row_within_beyond_the_sample",
            _zipped(("data.csv", joined(lines(MANY, line24000="1,2,3,4")).encode())),
            at=[24_000],
        ),
        _zip("unclosed_quote_within", _zipped(("data.csv", joined(lines(9, line5='5,"x,1')).encode())), at=[5, 9, 10]),
        _zip(
            "malformed_jsonl_within",
            _zipped(("data.jsonl", _JSONL + b"{\n")),
            at=[3],
            file="data.jsonl.zip",
            before=_zipped(("data.jsonl", b'{"id": 100, "name": "x"}\n')),
        ),
    ]


class _Unseekable(io.RawIOBase):
    """File that cannot seek: sizes and checksums then follow the data."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


#: Fields of the headers in an archive: their place and form in the local header, and in the directory.
_FIELDS = {
    "flags": (6, 8, "<H"),
    "method": (8, 10, "<H"),
    "checksum": (14, 16, "<I"),
    "packed": (18, 20, "<I"),
    "size": (22, 24, "<I"),
}


def _patched(archive: bytes, member: int = 0, *, directory_alone: bool = False, **fields: int) -> bytes:
    """Return an archive with other values in the headers of a member."""
    changed = bytearray(archive)
    directory = _places(archive, b"PK\1\2")[member]
    local = struct.unpack_from("<I", archive, directory + 42)[0]
    for name, value in fields.items():
        in_local, in_directory, form = _FIELDS[name]
        struct.pack_into(form, changed, directory + in_directory, value)
        if not directory_alone:
            struct.pack_into(form, changed, local + in_local, value)
    return bytes(changed)


def _places(content: bytes, mark: bytes) -> list[int]:
    found, start = [], content.find(mark)
    while start >= 0:
        found.append(start)
        start = content.find(mark, start + 1)
    return found


def _zip_patches() -> list[Case]:
    good = _zipped(("data.csv", _DATA))
    stored = _zipped(("data.csv", _DATA), method=zipfile.ZIP_STORED)
    one_row = _DATA.index(b"5,n5")
    flipped, other_row = bytearray(good), bytearray(stored)
    flipped[good.index(b"data.csv") + 30] ^= 0xFF
    other_row[stored.index(b"5,n5")] = ord("8")
    other_name = bytearray(good)
    other_name[good.index(b"data.csv")] = ord("x")
    no_local = bytearray(good)
    no_local[0:4] = b"XX\3\4"
    far = bytearray(good)
    struct.pack_into("<I", far, good.index(b"PK\1\2") + 42, 7_000)
    end = bytearray(good)
    struct.pack_into("<I", end, good.index(b"PK\5\6") + 16, 5_000)
    return [
        _zip("wrong_checksum", _patched(good, checksum=7)),
        _zip("wrong_checksum_of_stored_data", _patched(stored, checksum=7)),
        _zip("changed_byte_of_packed_data", bytes(flipped)),
        _zip("changed_byte_of_stored_data", bytes(other_row)),
        _zip("encrypted", _patched(good, flags=1)),
        _zip("strongly_encrypted", _patched(good, flags=0x41)),
        _zip("unknown_method", _patched(good, method=97)),
        _zip("reserved_method", _patched(good, method=7)),
        _zip("other_method", _patched(good, method=zipfile.ZIP_BZIP2)),
        _zip("stored_data_said_to_be_deflated", _patched(stored, method=zipfile.ZIP_DEFLATED)),
        _zip("deflated_data_said_to_be_stored", _patched(good, method=zipfile.ZIP_STORED)),
        _zip("size_too_small", _patched(good, size=one_row)),
        _zip(
            "size_too_small_with_its_checksum",
            _patched(good, size=one_row, checksum=zlib.crc32(_DATA[:one_row])),
            csv_table(_DATA[:one_row]),
            why="The size and the checksum are those of the first rows, and what follows is beside the file.",
        ),
        _zip("size_too_large", _patched(good, size=len(_DATA) + 99), _TABLE, why=_DAMAGED_BESIDE),
        _zip("packed_size_too_small", _patched(good, packed=20)),
        _zip("packed_size_too_large", _patched(good, packed=1_000_000), _TABLE, why=_DAMAGED_BESIDE),
        _zip("said_to_fill_the_disk", _patched(good, size=0xFFFF0000)),
        _zip("stored_size_too_small", _patched(stored, size=one_row, packed=one_row)),
        _zip("other_name_in_the_local_header", bytes(other_name), _TABLE, why=_DAMAGED_BESIDE),
        _zip("no_local_header", bytes(no_local)),
        _zip("local_header_out_of_the_file", bytes(far)),
        _zip("directory_out_of_the_file", bytes(end)),
    ]
