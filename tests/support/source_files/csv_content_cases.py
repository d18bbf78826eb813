"""CSV cases of content: headers, encodings, sizes, values, comments."""

from __future__ import annotations

import codecs
from functools import partial

from tests.support.source_files.cases import Case, Content, Table, encoded, joined
from tests.support.source_files.csv_sources import HEADER, MANY, ambiguous, lines, malformed, table_of, valid

_names = partial(
    ambiguous, why="A table cannot have two columns of a name, or one without; a reader may rename or refuse them."
)
_no_header = partial(
    ambiguous,
    why="By RFC 4180 the header is optional, and nothing in the file says whether there is one.",
    may_fail=False,
)
_nul = partial(ambiguous, why="RFC 4180 does not allow control characters; a reader may keep or refuse NUL.")
_utf_16 = partial(
    ambiguous,
    why="The byte order mark says UTF-16; a reader may decode it, or demand the option `encoding`.",
    encoding="utf-16",
)
_limit = partial(ambiguous, why="A reader may limit the length of a line, so that it need not hold any line in memory.")


def content_cases() -> list[Case]:
    return [*_headers(), *_encodings(), *_sizes(), *_numbers(), *_times(), *_other_values(), *_comments()]


def _headers() -> list[Case]:
    def named(header: str, *rows: str) -> list[str]:
        return [header, *(rows or ("1,a,1.5", "2,b,2.5"))]

    def either(text: Content) -> tuple[Table, Table]:
        return table_of(text), table_of(text, header=False)

    words, years = named("Ada,Bob", "Cyd,Dan", "Eve,Fay"), named("2020,2021", "a,b", "c,d")
    alone = [HEADER]
    return [
        _names("same_name_twice", named("id,id,name"), at=1, before=named("id,b,c")),
        _names("name_like_a_renamed_one", named("id,id,id_1"), at=1, before=named("id,b,c")),
        _names("empty_name_in_the_middle", named("id,,name"), at=1, before=named("id,b,name")),
        _no_header("years_as_names", years, *either(years), before=years),
        _no_header("header_alone", alone, *either(alone), before=lines(3)),
        _no_header("words_without_a_header", words, *either(words), before=words),
        valid(
            "no_header_is_given",
            named("1,a", "2,b"),
            header=False,
            options={"header": False},
            before=named("7,x", "8,y"),
        ),
        valid("name_with_a_newline", named('id,"full\nname",amount')),
        valid("name_that_closes_a_statement", named('id,"x""); DROP TABLE y; --",amount')),
        valid("names_in_other_scripts", named("\u756a\u53f7,\u0438\u043c\u044f,\U0001f600")),
        valid("names_with_spaces_around", named(" id , name , amount ")),
        ambiguous(
            "name_of_10000_characters",
            named(f"id,{'n' * 10_000},amount"),
            why="A database may limit the length of names.",
            at=1,
        ),
        valid("quoted_header_after_a_byte_order_mark", codecs.BOM_UTF8 + encoded(named('"id","name","amount"'))),
    ]


def _encodings() -> list[Case]:
    text = joined(lines(9, line3="3,J\u00f6rg,3.5"))
    before = lines(3)
    return [
        valid("characters_beyond_the_basic_plane", lines(5, line3="3,\U0001f600\u200d\u202e e\u0301,3.5")),
        malformed(
            "invalid_utf_8_in_the_header",
            joined([HEADER, "1,a,2"]).replace("name", "n\u00e4me").encode("latin-1"),
            at=1,
        ),
        malformed("surrogates_as_utf_8", encoded(lines(3)) + b"4,\xed\xa0\xbd\xed\xb8\x80,4.5\n", at=4),
        _utf_16("utf_16_le", codecs.BOM_UTF16_LE + text.encode("utf-16-le"), before=before),
        _utf_16("utf_16_be", codecs.BOM_UTF16_BE + text.encode("utf-16-be"), before=before),
        malformed("utf_16_le_without_mark", joined(lines(9)).encode("utf-16-le"), why="It is not UTF-8 text."),
        malformed("utf_32", codecs.BOM_UTF32_LE + text.encode("utf-32-le")),
        valid("byte_order_mark_in_the_middle", joined(lines(5)) + "\ufeff" + joined(lines(5)[1:])),
        ambiguous(
            "two_byte_order_marks",
            codecs.BOM_UTF8 * 2 + encoded(lines(5)),
            table_of(codecs.BOM_UTF8 * 2 + encoded(lines(5))),
            table_of(lines(5)),
            why="The second one is a character of the first name, or a mark.",
            at=1,
            before=before,
        ),
        _nul("nul_in_a_field", lines(9, line5="5,a\0b,5.5"), at=5),
        _nul("nul_in_quotes", lines(9, line5='5,"a\0,b",5.5'), at=5),
        valid("control_characters", lines(5, line3="3,a\x01\x07\x08\x1bb\x7f,3.5")),
        malformed("bytes_of_a_picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0" + bytes(range(256)) * 9),
    ]


def _sizes() -> list[Case]:
    field = "x" * 3_000_000
    return [
        malformed("no_byte", b""),
        malformed("one_newline", "\n"),
        _limit("field_of_3_mb", lines(9, line5=f"5,{field},5.5"), at=5),
        valid("field_of_3_mb_is_given", lines(9, line5=f"5,{field},5.5"), options={"max_line_size": 4_000_000}),
        _limit("quoted_field_of_3_mb_in_lines", lines(9, line5='5,"' + "x,y\n" * 750_000 + '",5.5'), at=(5, 750_005)),
        _limit("field_of_3_mb_beyond_the_sample", lines(MANY, line20900=f"5,{field},5.5"), at=20_900),
        valid(
            "many_columns_with_few_values", [",".join(f"c{n}" for n in range(300)), "1" + "," * 299, "," * 299 + "x"]
        ),
    ]


def _column(name: str, *cells: str, late: str | None = None) -> Case:
    """Return a case of a column with these cells, and one more far beyond the sample."""
    before = list(cells) * (20_600 // len(cells)) if late is not None else list(cells)
    values = [*before, *([] if late is None else [late])]
    return valid(name, ["id,value", *(f"{number % 7},{cell}" for number, cell in enumerate(values))])


def _numbers() -> list[Case]:
    return [
        _column("integers_and_late_text", "1", "2", late="x"),
        _column("integers_and_a_late_decimal", "1", "2", late="1.5"),
        _column("integers_and_a_late_one_of_40_digits", "1", "2", late="1234567890" * 4),
        _column("decimals_and_a_late_long_integer", "1.5", "2.5", late=str(2**53 + 1)),
        _column("long_integers_and_a_late_decimal", str(2**53 + 1), str(2**62 + 1), late="1.5"),
        _column("integers_beyond_64_bits", str(2**64 + 1), str(-(2**65) - 1), "3"),
        _column("long_integers_among_decimals", "0.5", str(2**63 + 1), "7"),
        _column("long_integers_and_nothing", "", str(2**60 + 1), ""),
        _column("leading_zeros", "007", "010", "000"),
        _column("plus_signs", "+1", "-2", "+0"),
        _column("points_without_digits", ".5", "5.", "-.5"),
        _column("words_that_are_no_numbers", "1.5", "NaN", "inf", "-Infinity"),
        _column("nan_late", "1", "2", late="NaN"),
        _column("late_number_beyond_floating_point", "1.5", "2", late="1e400"),
        _column("decimals_of_20_digits", "0.12345678901234567891", "1.00000000000000000001"),
        _column("negative_zero", "-0", "0", "-0.0"),
        _column("spaces_among_numbers", "1", "  ", "3"),
        _column("minus_of_print", "\u22121", "2"),
    ]


def _times() -> list[Case]:
    return [
        _column("days", "2026-01-02", "1999-12-31", "0001-01-01", "9999-12-31"),
        _column("months_before_days_and_another_order_late", "01/13/2026", "02/01/2026", late="13/01/2026"),
        _column("days_that_do_not_exist", "2026-02-30", "2026-01-01"),
        _column("day_that_does_not_exist_late", "2026-01-01", late="2026-02-30"),
        _column("moments", "2026-01-02 03:04:05", "2026-01-02T03:04:05"),
        _column("moments_with_zones", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00"),
        _column("moments_and_a_late_day", "2026-01-02 03:04:05", late="2026-01-02"),
        _column("nanoseconds", "2026-01-02 03:04:05.123456789", "2026-01-02 03:04:05.000000001"),
        _column("times", "03:04:05", "23:59:59.5"),
        _column("times_beyond_a_day", "23:00:00", "24:00:00", "25:61:00"),
        _column("leap_second", "2016-12-31 23:59:60", "2016-12-31 23:59:59"),
        _column("moments_of_a_twelve_hour_clock", "01/13/2026 03:04:05 PM", "02/03/2026 11:00:00 AM"),
    ]


def _other_values() -> list[Case]:
    return [
        _column("words_of_truth", "true", "false", "TRUE", "False"),
        _column("words_of_truth_and_late_text", "true", "false", late="maybe"),
        _column("numbers_and_a_late_word_of_truth", "1", "0", late="true"),
        _column("words_for_null", "NULL", "null", "NA", "N/A", "None", "nil", r"\N", "-"),
        _column("word_for_null_late", "1", "2", late="NULL"),
        _column("nothing_and_a_late_number", "", late="7"),
        _column("unique_ids_and_late_text", "8c5d6a3e-1111-4222-8333-444455556666", late="8c5d6a3e"),
        _column("json_in_cells", '"{""a"": [1, 2]}"', '"[]"', "null"),
        valid("all_is_text_by_option", ["id,value", "007,1e5", "+1,true"], options={"all_varchar": True}),
        valid("columns_without_a_value", ["a,b,c", ",,", ",x,"]),
    ]


def _comments() -> list[Case]:
    data = lines(9)
    return [
        malformed("comment_before_the_header", ["# made by hand", *data], at=(1, 2)),
        malformed("comment_in_the_middle", [*data[:4], "# the rest is new", *data[4:]], at=5),
        valid("header_that_begins_like_a_comment", ["#id,name,amount", *data[1:]]),
        valid("number_signs_within_fields", lines(9, line5="5,n # 5,5.5", line6="6,#,6.5")),
    ]
