"""Tests of gzip and zip files: they load completely, or the run fails and keeps the previous table."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.datapipe_local.elt_home import Home
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow


ROWS = "".join(f"{n},{n * 7919 % 100_003}\n" for n in range(20_000))
CSV = f"id,x\n{ROWS}".encode()
PACKED = gzip.compress(CSV, mtime=0)
LINES = b'{"id": 1}\n{"id": 2}\n'


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService({}, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def home(service: LocalService, tmp_path: Path) -> Home:
    return Home(service, tmp_path)


def put(home: Home, file: str, content: bytes, kind: str = "csv") -> None:
    home.seed({"name": "things", "file": file, "format": kind})
    (home.folder / file).write_bytes(content)


def pack(**members: bytes) -> bytes:
    return pack_named({f"{name}.csv": content for name, content in members.items()})


def pack_named(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("file", "content", "kind", "rows"),
    [
        ("a.csv.gz", PACKED, "csv", 20_000),
        ("a.jsonl.gz", gzip.compress(LINES, mtime=0), "jsonl", 2),
        ("several members.csv.gz", gzip.compress(b"id\n1\n", mtime=0) + gzip.compress(b"2\n", mtime=0), "csv", 2),
        ("padded.csv.gz", PACKED + bytes(512), "csv", 20_000),
        ("gzip with another name.csv", PACKED, "csv", 20_000),
        ("gzip in it.zip", pack_named({"a.csv": PACKED}), "csv", 20_000),
        ("a[1].csv.gz", PACKED, "csv", 20_000),
    ],
    # A name with content differs between the processes of a test run: gzip files contain the time.
    ids=lambda value: str(len(value)) if isinstance(value, bytes) else str(value),
)
def test_valid_file_loads_completely(home: Home, file: str, content: bytes, kind: str, rows: int) -> None:
    put(home, file, content, kind)
    assert home.run("things")[0] == rows
    assert home.rows("SELECT min(id) AS a, count(*) AS b FROM shop.things")[0][1] == rows


def flipped(position: int) -> bytes:
    return PACKED[:position] + bytes([PACKED[position] ^ 0x10]) + PACKED[position + 1 :]


BAD_GZIP = {
    "half of it": (PACKED[: len(PACKED) // 2], "truncated"),
    "without its last byte": (PACKED[:-1], "truncated"),
    "without checksum": (PACKED[:-8], "truncated"),
    "header only": (PACKED[:10], "truncated"),
    "wrong checksum": (flipped(len(PACKED) - 8), "damaged"),
    "wrong size": (flipped(len(PACKED) - 1), "damaged"),
    "bit error": (flipped(len(PACKED) // 2), "cannot be unpacked"),
    "text after it": (PACKED + b"id,x\n1,2\n", "damaged"),
    "second member truncated": (PACKED + gzip.compress(b"1,2\n")[:-3], "truncated"),
    "plain file": (CSV, "not a gzip file"),
    "no byte": (b"", "not a gzip file"),
    "zlib stream": (zlib.compress(CSV), "not a gzip file"),
    "zip archive": (pack(a=CSV), "is a zip archive"),
}


@pytest.mark.parametrize("case", BAD_GZIP)
def test_damaged_gzip_keeps_the_table(home: Home, case: str) -> None:
    put(home, "a.csv.gz", gzip.compress(b"id\n7\n"))
    home.run("things")
    content, reason = BAD_GZIP[case]
    (home.folder / "a.csv.gz").write_bytes(content)
    failure = home.failure("things")
    assert reason in failure
    assert str(home.folder / "a.csv.gz") in failure
    assert home.rows("SELECT * FROM shop.things") == [(7,)]


def encrypted() -> bytes:
    """Return an archive with the encryption flag set."""
    content = bytearray(pack(a=CSV))
    content[6] |= 1
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def damaged() -> bytes:
    content = pack(a=CSV)
    return content[:5000] + bytes(20) + content[5020:]


def twice() -> bytes:
    return pack(a=b"id\n1\n", b=b"id\n2\n").replace(b"b.csv", b"a.csv")


BAD_ZIP = {
    "truncated": (pack(a=CSV)[:-30], "not a zip file"),
    "half of it": (pack(a=CSV)[:9000], "not a zip file"),
    "damaged": (damaged(), "cannot be unpacked"),
    "encrypted": (encrypted(), "it is encrypted"),
    "plain file": (CSV, "not a zip file"),
    "no byte": (b"", "not a zip file"),
    "no member": (pack(), "holds 0 files"),
    "absolute name": (pack_named({"/etc/a.csv": CSV}), "leads out of it"),
    "name with dots": (pack_named({"../a.csv": CSV}), "leads out of it"),
    "name with backslashes": (pack_named({"x\\..\\a.csv": CSV}), "leads out of it"),
    "a name twice": (twice(), "several files named 'a.csv'"),
    "archive in it": (pack_named({"a.csv": pack(b=CSV)}), "a.csv in "),
    "damaged gzip in it": (pack_named({"a.csv": PACKED[:-9]}), "truncated"),
}


@pytest.mark.parametrize("case", BAD_ZIP)
def test_damaged_zip_keeps_the_table(home: Home, case: str) -> None:
    put(home, "a.zip", pack(a=b"id\n7\n"))
    home.run("things")
    content, reason = BAD_ZIP[case]
    (home.folder / "a.zip").write_bytes(content)
    failure = home.failure("things")
    assert reason in failure
    assert str(home.folder / "a.zip") in failure
    assert home.rows("SELECT * FROM shop.things") == [(7,)]


def test_malformed_member_is_named(home: Home) -> None:
    home.seed({"name": "things", "file": None, "files": "a.zip"})
    (home.folder / "a.zip").write_bytes(pack_named({"good.jsonl": LINES, "bad.jsonl": LINES + b"5\n"}))
    failure = home.failure("things")
    assert "Line 3 of bad.jsonl is not one JSON object: it is a number" in failure
    assert "tmp/" not in failure.replace(str(home.folder), "")
