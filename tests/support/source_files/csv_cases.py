"""CSV cases: widths, quotes, delimiters, line ends, blank lines, headers, encodings, sizes, values, comments."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.support.source_files.cases import Builder, Case, Content, Table, encoded, joined
from tests.support.source_files.references import csv_table

HEADER = "id,name,amount"
#: More rows than in the reader's sample.
MANY = 21_000


def row(number: int) -> str:
    return f"{number},n{number},{number}.5"


def lines(count: int, **others: str) -> list[str]:
    """Return a header and rows, some of which are replaced: ``line7`` is line 7 of the file."""
    found = [HEADER, *map(row, range(2, count + 1))]
    for name, other in others.items():
        found[int(name.removeprefix("line")) - 1] = other
    return found


def table(columns: Sequence[str] | None, *rows: Sequence[str | None]) -> Table:
    return Table(None if columns is None else tuple(columns), rows)


def _valid_file(
    tables: Sequence[Table],
    *,
    encoding: str = "utf-8",
    header: bool = True,
    padded: bool = False,
    null: str = "",
    **dialect: Any,
) -> bytes:
    columns: Sequence[Any] = HEADER.split(",")
    if tables and (named := tables[0].columns or (tables[0].rows and tables[0].rows[0])):
        columns = named
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", **dialect)
    if header:
        writer.writerow(columns)
    writer.writerows([f"before {number}" for _ in columns] for number in (1, 2))
    return out.getvalue().encode(encoding)


CSV = Builder("csv", "data.csv", csv_table, _valid_file)
valid, malformed, ambiguous, table_of = CSV.valid, CSV.malformed, CSV.ambiguous, CSV.table_of
#: Options for small buffers of the reader.
_SMALL_BUFFERS = {"max_line_size": 20_000}
_literal = partial(
    ambiguous, why="RFC 4180 does not allow a quote within an unquoted field; many readers take it literally."
)
_spaces = partial(ambiguous, why="RFC 4180 does not allow spaces around quotes; there are dialects that ignore them.")
_blank = partial(ambiguous, why="By RFC 4180 a blank line is a record of one empty field; most readers skip it.")
_detected = partial(ambiguous, why="The comma is the only delimiter of RFC 4180; a reader may detect another, or not.")
_mixed_ends = partial(ambiguous, why="RFC 4180 has CRLF alone; readers that take LF may refuse a file that has both.")
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


def csv_cases() -> list[Case]:
    structure = [*_widths(), *_quotes(), *_delimiters(), *_line_ends(), *_blank_lines()]
    return [*structure, *_headers(), *_encodings(), *_sizes(), *_numbers(), *_times(), *_other_values(), *_comments()]


def _widths() -> list[Case]:
    long, short = "7,n7,7.5,extra", "7,n7"
    # More than one buffer of the reader (32 MB) in few rows.
    wide = [HEADER, *(f"{number},{'x' * 8_000},{number}.5" for number in range(2, 4_500))]
    return [
        malformed("long_row_first", lines(9, line2=long), at=2),
        malformed("long_row_last", lines(9, line9=long), at=9),
        malformed("long_row_beyond_the_sample", lines(MANY, line20900=long), at=20_900),
        malformed("long_row_is_last_of_many", lines(MANY, line21000=long), at=MANY),
        malformed("long_row_beyond_small_buffers", lines(MANY, line20999=long), at=20_999, options=_SMALL_BUFFERS),
        malformed("long_row_beyond_buffers", [*wide, long], at=4_500),
        malformed("short_row_first", lines(9, line2=short), at=2),
        malformed("short_row_last", lines(9, line9=short), at=9),
        malformed("short_row_beyond_the_sample", lines(MANY, line20900=short), at=20_900),
        malformed("row_cut_within_its_last_line", joined(lines(9)) + "10,n1", at=10),
        malformed("all_rows_long", [HEADER, "1,a,1.5,x", "2,b,2.5,y", "3,c,3.5,z"], at=(1, 2)),
        malformed("only_row_is_long", [HEADER, "1,a,1.5,x"], at=(1, 2)),
        malformed("trailing_delimiter_of_all_rows", [HEADER, "1,a,1.5,", "2,b,2.5,"], at=(1, 2)),
        malformed("trailing_delimiter_of_the_header", [HEADER + ",", "1,a,1.5", "2,b,2.5"], at=(1, 2)),
        malformed("trailing_delimiter_beyond_the_sample", lines(MANY, line20900="1,n,1.5,"), at=20_900),
        malformed("sum_after_the_rows", [*lines(9), "Sum: 42"], at=10),
        malformed("many_columns_and_one_less", _wide(299), at=(2, 3), before=_wide(300)),
        valid("many_columns", _wide(300)),
        valid("one_column", ["id", *map(str, range(1_000))]),
        ambiguous(
            "one_column_named_with_a_comma",
            ['"name, first"', "Ada", "Bob"],
            why="It is valid, and it is also what a header with wrong quotes looks like.",
            at=1,
            before=["name", "x"],
        ),
        ambiguous(
            "wrong_delimiter_given",
            lines(5),
            why="With the given delimiter it is one column, named as the header; a reader may refuse that.",
            delimiter=";",
            options={"delim": ";"},
            before=["id;name", "1;2"],
        ),
    ]


def _wide(last: int) -> list[str]:
    return [",".join(f"c{n}" for n in range(300)), ",".join(["1"] * 300), ",".join(["2"] * last)]


def _quotes() -> list[Case]:
    long_text = "\n".join(f"line {number}" for number in range(10_000))
    quoted = [HEADER, *(f"{n},'a, {n}',1.5" for n in range(9))]
    escaped = lines(9, line5=r'5,"say \"hi\"",5.5')
    return [
        valid("all_quoted", ['"id","name","amount"', '"1","a","1.5"', '"2","b","2.5"']),
        valid("first_quoted_delimiter_beyond_the_sample", lines(MANY, line20900='3,"a,b",3.5')),
        valid("quoted_newline", lines(5, line3='3,"a\nb",3.5')),
        valid("first_quoted_newline_beyond_the_sample", lines(MANY, line20900='3,"a\nb",3.5')),
        valid("quoted_lf_among_crlf", joined(lines(5, line3='3,"a\nb",3.5'), "\r\n")),
        valid("quoted_text_of_10000_lines", lines(5, line3=f'3,"{long_text}",3.5')),
        valid("quoted_rows_within_a_field", [HEADER, '1,"a,1.5\n2,b",2.5', "3,c,3.5"]),
        valid("field_of_one_quote", lines(5, line3='3,"""",3.5')),
        valid("quoted_last_field_without_newline", 'id,name\n1,"a"\n2,"b"'),
        valid("quoted_newlines_in_many_rows", [HEADER, *(f'{n},"a\nb {n}",1.5' for n in range(15_000))]),
        malformed("unclosed_quote_in_the_header", ['id,"name,amount', "1,a,1.5"], at=(1, 2, 3)),
        malformed("unclosed_quote_in_the_middle", lines(99, line50='50,"n,50.5'), at=(50, 99, 100)),
        malformed("unclosed_quote_at_the_end", 'id,name\n1,a\n2,"', at=3),
        malformed("unclosed_quote_beyond_the_sample", lines(MANY, line20900='1,"n,1.5'), at=(20_900, 21_000, 21_001)),
        malformed("unclosed_quote_and_a_later_pair", lines(9, line3='3,"n3,3.5', line6='6,"n6",6.5'), at=range(3, 7)),
        malformed(
            "unclosed_quote_and_a_pair_beyond_the_sample",
            lines(MANY, line20900='3,"n3,3.5', line20950='6,"n6",6.5'),
            at=(20_900, 20_950),
        ),
        malformed("unclosed_quote_of_5_mb", [HEADER, '1,"a,1.5', *map(row, range(250_000))], at=(2, 250_002, 250_003)),
        malformed("text_after_a_quote", lines(9, line5='5,"n5"x,5.5'), at=5),
        _spaces("space_after_a_quote", lines(9, line5='5,"n5" ,5.5'), table_of(lines(9)), at=5),
        malformed("quotes_of_print_around_a_comma", lines(9, line5="5,\u201cn,5\u201d,5.5"), at=5),
        _spaces(
            "space_before_a_quote",
            lines(9, line5='5, "n5",5.5'),
            table_of(lines(9, line5='5, "n5",5.5')),
            table_of(lines(9)),
            at=5,
        ),
        _literal("quote_within_a_field", lines(9, line5='5,5" pipe,5.5'), at=5),
        ambiguous(
            "backslash_before_a_quote",
            escaped,
            table_of(escaped, escapechar="\\", doublequote=False),
            why="By RFC 4180 the second quote ends the field; a reader may detect the backslash as escape.",
            at=5,
        ),
        valid(
            "backslash_is_the_escape",
            escaped,
            options={"escape": "\\", "quote": '"'},
            escapechar="\\",
            doublequote=False,
        ),
        valid("backslash_at_the_end_of_a_quoted_field", lines(9, line5='5,"C:\\dir\\",5.5')),
        ambiguous(
            "single_quotes_around_a_comma",
            quoted,
            table_of(quoted, quotechar="'"),
            why="Single quotes mean nothing in RFC 4180; a reader may detect them.",
            at=2,
        ),
        valid("apostrophes", lines(9, line5="5,O'Neill,5.5", line7="7,'quoted',7.5")),
        valid("empty_quoted_fields", [HEADER, '1,"",1.5', '2,x,""', '"","",""']),
    ]


def _delimiters() -> list[Case]:
    def other(delimiter: str) -> str:
        return joined(lines(9)).replace(",", delimiter)

    semicolons = [HEADER, *(row(n).replace(",", ";") for n in range(2, 9))]
    with_commas = ["id;name;amount", "1;a;1,5", "2;b;2,5", "3;c, d;3,5"]
    return [
        _detected("semicolons", other(";"), delimiter=";"),
        valid("tabs_in_a_tsv_file", other("\t"), file="data.tsv", delimiter="\t"),
        malformed("short_row_in_a_tsv_file", ["id\tname", "1\ta", "2"], at=3, file="data.tsv", delimiter="\t"),
        _detected("semicolons_and_decimal_commas", with_commas, delimiter=";"),
        valid(
            "two_characters_are_given",
            ["id||name", "1||a|b", "2||c"],
            options={"delim": "||"},
            expected=table(["id", "name"], ["1", "a|b"], ["2", "c"]),
            before=["id||name", "1||x"],
        ),
        malformed("other_delimiter_beyond_the_sample", [*lines(MANY), *["1;n;1.5"] * 2_000], at=MANY + 1),
        malformed("header_has_commas_and_rows_semicolons", semicolons, at=(1, 2)),
        valid("semicolons_in_the_data", [HEADER, *(f"{n},a;b;c,{n}.5" for n in range(9))]),
        valid("as_many_semicolons_as_commas", ["id,name;x,amount", *(f"{n},a;b,{n}.5" for n in range(9))]),
        ambiguous(
            "excel_names_the_delimiter",
            ["sep=;", "id;name", "1;a", "2;b"],
            table(["id", "name"], ["1", "a"], ["2", "b"]),
            table(["sep=", ""], ["id", "name"], ["1", "a"], ["2", "b"]),
            why="Excel's line with the delimiter is a convention that no format defines.",
            at=(1, 2),
        ),
    ]


def _line_ends() -> list[Case]:
    data = lines(9)
    crlf_later = joined(data) + joined(map(row, range(9)), "\r\n")
    lf_later = joined(data, "\r\n") + joined(map(row, range(9)))
    return [
        valid("crlf", joined(data, "\r\n")),
        valid("cr", joined(data, "\r")),
        valid("lf_without_the_last", joined(data).removesuffix("\n")),
        valid("crlf_of_many_rows", joined(lines(MANY), "\r\n")),
        _mixed_ends("lf_and_then_crlf", crlf_later, at=(10, 9)),
        _mixed_ends("crlf_and_then_lf", lf_later, at=(9, 10)),
        _mixed_ends("crlf_beyond_the_sample", joined(lines(MANY)) + joined(lines(9)[1:], "\r\n"), at=(MANY, MANY + 1)),
        malformed("cr_within_a_field", lines(9, line5="5,n\r5,5.5"), at=(5, 6)),
        ambiguous(
            "cr_cr_lf",
            joined(data, "\r\r\n"),
            table_of(data),
            why="A program that wrote CRLF in text mode: each row ends with a CR too many.",
            at=range(1, 20),
        ),
        valid("line_ends_of_unicode_in_fields", [HEADER, "1,a\u2028b,1.5", "2,a\x85b,2.5", "3,a\x0bb\x0cc,3.5"]),
        malformed("end_of_file_character_of_dos", joined(data) + "\x1a", at=10),
    ]


def _blank_lines() -> list[Case]:
    data = lines(9)
    skipped = table_of(data)
    return [
        _blank("blank_line_first", ["", *data], skipped, at=(1, 2)),
        _blank("blank_crlf_line_first_and_one_row", "\r\nid,name\n0,\n", table(["id", "name"], ["0", None]), at=(1, 2)),
        _blank("blank_line_after_the_header", [data[0], "", *data[1:]], skipped, at=2),
        _blank("blank_line_in_the_middle", [*data[:4], "", *data[4:]], skipped, at=5),
        _blank("blank_line_last", [*data, ""], skipped, at=10),
        _blank("blank_line_after_each_row", joined(data, "\n\n"), skipped, at=2),
        _blank(
            "blank_line_beyond_the_sample", lines(MANY, line20900=f"\n{row(20_900)}"), table_of(lines(MANY)), at=20_900
        ),
        malformed("line_of_spaces", [*data[:4], "   ", *data[4:]], at=5),
        malformed("line_of_spaces_beyond_the_sample", lines(MANY, line20900="   "), at=20_900),
        _blank(
            "blank_line_among_rows_of_one_column",
            ["name", "a", "", "b"],
            table(["name"], ["a"], [None], ["b"]),
            table(["name"], ["a"], ["b"]),
            at=3,
        ),
        malformed("only_blank_lines", "\n\n\n\n"),
        _blank("only_spaces", "   \n   \n", table(["   "], ["   "]), table(None, ["   "], ["   "]), at=1),
    ]


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
