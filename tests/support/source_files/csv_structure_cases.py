"""CSV cases of structure: widths, quotes, delimiters, line ends, blank lines."""

from __future__ import annotations

from functools import partial

from tests.support.source_files.cases import Case, joined
from tests.support.source_files.csv_sources import (
    HEADER,
    MANY,
    ambiguous,
    lines,
    malformed,
    row,
    table,
    table_of,
    valid,
)

#: Options with which the reader's buffers are small.
_SMALL_BUFFERS = {"max_line_size": 20_000}
_literal = partial(
    ambiguous, why="RFC 4180 does not allow a quote within an unquoted field; many readers take it literally."
)
_spaces = partial(ambiguous, why="RFC 4180 does not allow spaces around quotes; there are dialects that ignore them.")
_blank = partial(ambiguous, why="By RFC 4180 a blank line is a record of one empty field; most readers skip it.")
_detected = partial(ambiguous, why="The comma is the only delimiter of RFC 4180; a reader may detect another, or not.")
_mixed_ends = partial(ambiguous, why="RFC 4180 has CRLF alone; readers that take LF may refuse a file that has both.")


def structure_cases() -> list[Case]:
    return [*_widths(), *_quotes(), *_delimiters(), *_line_ends(), *_blank_lines()]


def _widths() -> list[Case]:
    long, short = "7,n7,7.5,extra", "7,n7"
    # More than one of the reader's buffers of 32 MB, in few rows.
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
        malformed("thousand_columns_and_one_less", _thousand(999), at=(2, 3), before=_thousand(1_000)),
        valid("thousand_columns", _thousand(1_000)),
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


def _thousand(last: int) -> list[str]:
    return [",".join(f"c{n}" for n in range(1_000)), ",".join(["1"] * 1_000), ",".join(["2"] * last)]


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
