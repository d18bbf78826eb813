"""JSON Lines cases: records, numbers, texts, nesting, types that change."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.support.source_files.cases import Builder, Case, Number, Table, joined
from tests.support.source_files.csv_cases import MANY
from tests.support.source_files.references import json_value, jsonl_table


def jsonl_cases() -> list[Case]:
    return [*_records(), *_files(), *_keys(), *_numbers(), *_texts(), *_nested(), *_changes()]


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _valid_file(tables: Sequence[Table]) -> bytes:
    columns: Sequence[str] = tables[0].columns or () if tables else ("id", "name")
    return joined(json.dumps({column or "x": f"before {number}" for column in columns}) for number in (1, 2)).encode()


_JSONL = Builder("jsonl", "data.jsonl", jsonl_table, _valid_file)
_valid, _malformed, _ambiguous, _table_of = _JSONL.valid, _JSONL.malformed, _JSONL.ambiguous, _JSONL.table_of
_blank = partial(_ambiguous, why="JSON Lines has a value on each line; many readers skip blank lines.")
_keys_differ = partial(
    _ambiguous, why="By RFC 8259 the names within an object should be unique, and readers differ where they are not."
)
_no_column = partial(_ambiguous, why="A table cannot have a column without a name; a reader may name it, or refuse it.")
_concatenated = partial(
    _ambiguous, why="JSON Lines has one value on each line; a reader may take several that follow one another."
)
_limited = partial(_ambiguous, why="RFC 8259 lets a reader limit the depth and the size of what it takes.")


def _rows(count: int, **others: str) -> str:
    """Return lines of records, some of which are replaced: ``line7`` is line 7 of the file."""
    lines = [f'{{"id": {number}, "name": "n{number}"}}\n' for number in range(1, count + 1)]
    for name, other in others.items():
        lines[int(name.removeprefix("line")) - 1] = f"{other}\n"
    return "".join(lines)


def _records() -> list[Case]:
    good = '{"id": 1, "name": "a"}'
    faults = {
        "number": "7",
        "text": '"text"',
        "word_of_truth": "true",
        "null": "null",
        "array": "[1, 2]",
        "object_without_end": '{"id": 5, "name": "a"',
        "text_without_end": '{"id": 5, "name": "a}',
        "trailing_comma": '{"id": 5, "name": "a",}',
        "comma_after_the_object": f"{good},",
        "missing_comma": '{"id": 5 "name": "a"}',
        "single_quotes": "{'id': 5, 'name': 'a'}",
        "nan": '{"id": NaN, "name": "a"}',
        "infinity": '{"id": -Infinity, "name": "a"}',
        "leading_zero": '{"id": 05, "name": "a"}',
        "comment": f"{good} // note",
        "text_after_the_object": f"{good} x",
        "tab_in_a_text": '{"id": 5, "name": "a\tb"}',
        "control_character_in_a_text": '{"id": 5, "name": "a\x01b"}',
        "unknown_escape": r'{"id": 5, "name": "a\x41"}',
        "csv": "5,a",
        "nul": "\0" * 100,
        "non_breaking_space": '{"id":\u00a05, "name": "a"}',
    }
    early, late = ("number", "array", "object_without_end"), ("text", "null", "trailing_comma", "nan")
    return [
        _valid("records", _rows(9)),
        *(_malformed(f"{name}_in_one_line", _rows(9, line5=fault), at=5) for name, fault in faults.items()),
        *(_malformed(f"{name}_in_the_first_line", _rows(9, line1=faults[name]), at=1) for name in early),
        *(_malformed(f"{name}_in_all_lines", [faults[name]] * 9, at=1) for name in early),
        *(
            _malformed(f"{name}_beyond_the_sample", _rows(MANY, line20900=faults[name]), at=20_900)
            for name in (*early, *late)
        ),
        _malformed("two_objects_and_a_comma_in_a_line", _rows(9, line5=f"{good}, {good}"), at=5),
        _concatenated(
            "two_objects_in_a_line",
            _rows(9, line5=f"{good} {good}"),
            jsonl_table(_rows(9, line5=f"{good}\n{good}").encode()),
            at=5,
        ),
        _concatenated("objects_without_newlines", _rows(9).replace("\n", ""), jsonl_table(_rows(9).encode()), at=1),
        _malformed("object_over_two_lines", _rows(9, line5='{"id": 5,\n"name": "a"}'), at=(5, 6)),
        _malformed("cut_within_the_last_line", _rows(9)[:-9], at=9),
        _malformed("cut_beyond_the_sample", _rows(MANY)[:-9], at=MANY),
    ]


def _files() -> list[Case]:
    data = _rows(9)
    skipped = jsonl_table(data.encode())
    before = _rows(2)
    values = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    return [
        _malformed("no_byte", b""),
        _valid("without_the_last_newline", data.removesuffix("\n")),
        _valid("crlf", data.replace("\n", "\r\n")),
        _ambiguous("lf_and_crlf", data + data.replace("\n", "\r\n"), why="JSON Lines has LF; CR is white space."),
        _malformed("cr_alone", data.replace("\n", "\r"), at=1),
        _ambiguous(
            "byte_order_mark",
            codecs.BOM_UTF8 + data.encode(),
            why="By RFC 8259 a mark must not be written, and may be ignored.",
            at=1,
        ),
        _blank("blank_line_first", f"\n{data}", skipped, at=1),
        _blank("blank_lines", data.replace("\n", "\n\n"), skipped, at=2),
        _blank("lines_of_spaces", data.replace("\n", "\n  \t\n"), skipped, at=2),
        _ambiguous(
            "spaces_around_objects", data.replace("{", "  {").replace("}", "}\t "), why="White space is insignificant."
        ),
        _malformed("pretty_printed", "".join(json.dumps(each, indent=2) + "\n" for each in values), at=(1, 2)),
        _malformed(
            "array_with_a_record_on_each_line", "[\n" + ",\n".join(map(json.dumps, values)) + "\n]\n", at=(1, 2)
        ),
        _malformed("utf_16", data.encode("utf-16"), before=before),
        _malformed("thousand_nul", "\0" * 1_000, before=before),
        _malformed("invalid_utf_8_in_a_text", data.encode() + b'{"id": 10, "name": "J\xf6rg"}\n', at=10),
        _malformed(
            "invalid_utf_8_beyond_the_sample", _rows(MANY).encode() + b'{"id": 10, "name": "\xff"}\n', at=MANY + 1
        ),
        _limited("text_of_17_mb", _rows(9, line5=_line({"id": 5, "name": "x" * 17_000_000}).strip()), at=5),
        _valid(
            "text_of_17_mb_is_given",
            _rows(9, line5=_line({"id": 5, "name": "x" * 17_000_000}).strip()),
            options={"maximum_object_size": 30_000_000},
        ),
        _valid("line_separators_of_unicode", _line({"id": 1, "name": "a\u2028b\x85c"})),
    ]


def _keys() -> list[Case]:
    twice = '{"id": 1, "id": 2, "name": "a"}\n'
    keys = {f"k{n}": n for n in range(250)}
    return [
        _keys_differ("key_twice", twice, at=1, before=_rows(2)),
        _keys_differ("key_twice_in_a_nested_object", '{"id": 1, "s": {"a": 1, "a": 2}}\n', at=1),
        _no_column("keys_that_differ_in_case", '{"id": 1, "ID": 2}\n{"id": 3, "ID": 4}\n', before='{"id": 1}\n'),
        _no_column("empty_key", '{"": 1, "id": 2}\n{"": 3, "id": 4}\n', at=1, before='{"id": 1}\n'),
        _malformed("objects_without_keys", "{}\n{}\n", why="There is no column."),
        _valid("keys_that_are_missing", '{"id": 1}\n{"name": "b"}\n{"id": 3, "name": "c"}\n'),
        _valid("keys_beyond_the_sample_of_many_types", _rows(MANY) + '{"id": 1, "a": "x", "b": [1], "c": {"d": 2}}\n'),
        _valid("many_keys", _line(keys) * 2),
        _valid("other_keys_in_each_line", "".join(_line({"id": n, f"k{n}": n}) for n in range(250))),
        _valid("keys_of_sql", '{"select": 1, "from; DROP TABLE x": 2, "a\\"b": 3}\n'),
        _valid("keys_in_other_scripts", _line({"\u756a\u53f7": 1, "\U0001f600": 2, "with space": 3, "a.b": 4})),
        _valid("keys_with_escapes", '{"\\u0061": 1, "\\u00e4": 2}\n'),
    ]


def _value(name: str, *values: str, late: str | None = None, **more: Any) -> Case:
    """Return a case of a key with these values, and one more far beyond the sample."""
    known = list(values) * (20_600 // len(values)) if late is not None else list(values)
    found = [*known, *([] if late is None else [late])]
    content = "".join(f'{{"id": {number % 7}, "value": {value}}}\n' for number, value in enumerate(found))
    parsed = {value: json_value(value) for value in set(found)}
    ids = [Number(number) for number in range(7)]
    rows = [(ids[number % 7], parsed[value]) for number, value in enumerate(found)]
    return _valid(name, content, expected=Table(("id", "value"), rows), **more)


def _numbers() -> list[Case]:
    return [
        _value("integers", "1", "-2", "0", str(2**63 - 1), str(-(2**63))),
        _value("integers_of_64_bits", "1", str(2**64 - 1), str(2**63)),
        _value("integers_beyond_64_bits", "1", str(2**64), str(-(2**64) - 1), str(2**128 + 1)),
        _value("integers_of_60_digits", "1", "1234567890" * 6),
        _value("integer_beyond_64_bits_late", "1", "2", late=str(2**64 + 1)),
        _value("integers_beyond_64_bits_among_decimals", "0.5", str(2**64 + 1)),
        _value("long_integers_among_decimals", "0.5", str(2**53 + 1)),
        _value("long_integers_and_a_late_decimal", str(2**53 + 1), late="0.5"),
        _value("long_integers_in_an_array", f"[1, {2**64 + 1}]", "[2]"),
        _value("long_integers_in_an_object", f'{{"a": {2**64 + 1}}}', '{"a": 1}'),
        _value("exponent_late", "1", "2", late="1e2"),
        _value("negative_zero", "-0", "0", "-0.0"),
        _value("decimals_of_20_digits", "0.12345678901234567891", "1.5"),
        _limited("number_beyond_floating_point", '{"id": 1, "value": 1e400}\n{"id": 2, "value": 1.5}\n', at=1),
        _value("decimal_and_a_late_one_in_a_text", "1.5", late='"2.50"'),
        _value("number_with_zeros_in_a_text_late", "1", "2", late='"007"'),
    ]


def _texts() -> list[Case]:
    return [
        _value("surrogate_pairs", r'"\ud83d\ude00"', '"\U0001f600"'),
        _malformed("lone_high_surrogate", r'{"id": 1, "value": "a\ud83d"}', why="It is no character.", at=1),
        _ambiguous(
            "escaped_nul",
            r'{"id": 1, "value": "a\u0000b"}' + "\n",
            why="It is valid, and many databases have no text with NUL.",
            at=1,
        ),
        _value("day_and_a_late_one_in_another_form", '"2026-01-02"', late='"03/04/2026"'),
        _value("days_that_do_not_exist", '"2026-01-02"', '"2026-02-30"'),
        _value("moments", '"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.123456+02:00"'),
        _value("moment_and_a_late_day", '"2026-01-02T03:04:05"', late='"2026-01-02"'),
        _value("nanoseconds", '"2026-01-02T03:04:05.123456789"'),
    ]


def _nested() -> list[Case]:
    def deep(depth: int) -> str:
        return '{"id": 1, "value": ' + "[" * depth + "1" + "]" * depth + "}\n"

    return [
        _value("objects", '{"a": 1, "b": "x"}', '{"b": "y"}'),
        _value("object_with_another_key_alone_late", '{"a": 1}', late='{"b": "x"}'),
        _value("object_with_a_deep_other_key_late", '{"a": {"b": 1}}', late='{"a": {"c": {"d": 2}}}'),
        _value("object_with_a_late_decimal", '{"a": 1}', late='{"a": 2.5}'),
        _value("array_with_a_late_decimal", "[1]", late="[2.5]"),
        _value("arrays", "[1, 2]", "[]", "[null, 3]"),
        _value("array_with_a_text_late", "[1, 2]", late='["x"]'),
        _value("array_of_objects_with_another_key_late", '[{"a": 1}]', late='[{"a": 1, "z": "x"}]'),
        _value("empty_objects", "{}", "{}"),
        _value("objects_with_many_keys", *(json.dumps({f"k{n}": n}) for n in range(250))),
        _limited("depth_of_500", deep(500), at=1),
        _malformed("depth_of_50000", deep(50_000), at=1),
    ]


def _changes() -> list[Case]:
    kinds = {"number": "1", "decimal": "1.5", "text": '"x"', "truth": "true", "array": "[1]", "object": '{"a": 1}'}
    # Nested types are detected from the whole file, not only from the sample.
    pairs = [(one, other) for one in kinds for other in kinds if one != other and one not in ("array", "object")]
    cases = [
        _value(f"{one}_and_late_{other}", kinds[one], late=kinds[other])
        for one, other in (*pairs, ("array", "text"), ("object", "array"))
    ]
    mixed = [_value("values_of_all_types", *kinds.values(), "null")]
    nulls = [_value(f"null_and_late_{one}", "null", late=first) for one, first in kinds.items()]
    return [*cases, *mixed, *nulls, _value("null_late", "1", late="null"), _value("nulls_alone", "null", "null")]
