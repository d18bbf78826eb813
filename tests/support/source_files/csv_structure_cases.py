"""CSV cases of structure: widths, quotes, delimiters, line ends, blank lines."""

from __future__ import annotations

from tests.support.source_files.cases import Case
from tests.support.source_files.csv_sources import (
    HEADER,
    MANY,
    ambiguous,
    joined,
    lines,
    malformed,
    row,
    table,
    valid,
)
from tests.support.source_files.references import csv_table

#: Options with which the reader's buffers are small.
_SMALL_BUFFERS = {"max_line_size": 20_000}
_LITERAL = "RFC 4180 does not allow a quote within an unquoted field; many readers take it literally."
_SPACES = "RFC 4180 does not allow spaces around quotes; there are dialects that ignore them."
_BLANK = "By RFC 4180 a blank line is a record of one empty field; most readers skip it."
_DELIMITER = "The comma is the only delimiter of RFC 4180; a reader may detect another, or not."
_LINE_ENDS = "RFC 4180 has CRLF alone; readers that take LF may refuse a file that has both."


def structure_cases() -> list[Case]:
    return [*_widths(), *_quotes(), *_delimiters(), *_line_ends(), *_blank_lines()]


def _widths() -> list[Case]:
    long, short = "7,n7,7.5,extra", "7,n7"
    # Three of the reader's buffers of 32 MB, in few rows.
    wide = [HEADER, *(f"{number},{'x' * 8_000},{number}.5" for number in range(2, 9_000))]
    return [
        malformed("long_row_first", joined(lines(9, line2=long)), at=2),
        malformed("long_row_in_the_middle", joined(lines(9, line5=long)), at=5),
        malformed("long_row_last", joined(lines(9, line9=long)), at=9),
        malformed("long_row_after_a_thousand", joined(lines(1_002, line1002=long)), at=1_002),
        malformed("long_row_beyond_the_sample", joined(lines(MANY, line24000=long)), at=24_000),
        malformed("long_row_is_last_of_many", joined(lines(MANY, line25000=long)), at=MANY),
        malformed(
            "long_row_beyond_small_buffers", joined(lines(MANY, line24999=long)), at=24_999, options=_SMALL_BUFFERS
        ),
        malformed("long_row_beyond_buffers", joined([*wide, long]), at=9_000),
        malformed("short_row_first", joined(lines(9, line2=short)), at=2),
        malformed("short_row_in_the_middle", joined(lines(9, line5=short)), at=5),
        malformed("short_row_last", joined(lines(9, line9=short)), at=9),
        malformed("short_row_among_500", joined(lines(502, line300=short)), at=300),
        malformed("short_row_beyond_the_sample", joined(lines(MANY, line24000=short)), at=24_000),
        malformed(
            "short_row_beyond_small_buffers", joined(lines(MANY, line24999=short)), at=24_999, options=_SMALL_BUFFERS
        ),
        malformed("row_cut_within_its_last_line", joined(lines(9)) + "10,n1", at=10),
        malformed("all_rows_short", joined([HEADER, "1,a", "2,b", "3,c"]), at=2),
        malformed("all_rows_long", joined([HEADER, "1,a,1.5,x", "2,b,2.5,y", "3,c,3.5,z"]), at=(1, 2)),
        malformed("only_row_is_short", joined([HEADER, "1,a"]), at=2),
        malformed("only_row_is_long", joined([HEADER, "1,a,1.5,x"]), at=(1, 2)),
        malformed("widths_alternate", joined([HEADER, *["1,a,1.5", "2,b"] * 5]), at=3),
        malformed("many_widths", joined([HEADER, *(",".join("x" * n) for n in range(1, 9))]), at=2),
        malformed("trailing_delimiter_of_all_rows", joined([HEADER, "1,a,1.5,", "2,b,2.5,"]), at=(1, 2)),
        malformed("trailing_delimiter_of_one_row", joined(lines(9, line5="5,n5,5.5,")), at=5),
        malformed("trailing_delimiter_of_the_header", joined([HEADER + ",", "1,a,1.5", "2,b,2.5"]), at=(1, 2)),
        malformed("trailing_delimiter_beyond_the_sample", joined(lines(MANY, line24000="1,n,1.5,")), at=24_000),
        malformed("row_with_two_empty_fields_more", joined(lines(9, line5="5,n5,5.5,,")), at=5),
        malformed("two_rows_on_one_line", joined(lines(9, line5="5,n5,5.56,n6,6.5")), at=5),
        malformed("title_before_the_header", joined(["Report of May", *lines(5)]), at=(1, 2)),
        malformed("titles_before_the_header", joined(["Report", "May, 2026", *lines(5)]), at=(1, 2, 3)),
        malformed("sum_after_the_rows", joined([*lines(9), "Sum: 42"]), at=10),
        malformed("two_tables", joined([*lines(5), "a,b", "1,2"]), at=6),
        malformed("thousand_columns_and_one_less", _thousand(999), at=(2, 3), before=_thousand(1_000)),
        malformed("rows_of_zeros", joined([HEADER, "0,0,0", "0,0", "0,0,0"]), at=3),
        valid(
            "titles_that_are_skipped",
            joined(["Report", "May, 2026", *lines(5)]),
            options={"skip": 2},
            expected=csv_table(joined(lines(5)).encode()),
            before=joined(["x", "x", *lines(3)]),
        ),
        valid("short_row_that_is_padded", joined(lines(9, line5=short)), options={"null_padding": True}, padded=True),
        malformed("long_row_despite_padding", joined(lines(9, line5=long)), at=5, options={"null_padding": True}),
        valid("thousand_columns", _thousand(1_000)),
        valid("one_column", joined(["id", *map(str, range(1_000))])),
        valid("one_column_of_words", joined(["full name", "Ada Lovelace", "Bob Miller", "Cyd O Neill"])),
        ambiguous(
            "one_column_named_with_a_comma",
            joined(['"name, first"', "Ada", "Bob"]),
            why="It is valid, and it is also what a header with wrong quotes looks like.",
            at=[1],
            before=joined(["name", "x"]),
        ),
        valid(
            "one_column_named_with_a_given_comma",
            joined(['"name, first"', "Ada", "Bob"]),
            options={"delim": ","},
        ),
        ambiguous(
            "wrong_delimiter_given",
            joined(lines(5)),
            why="With the given delimiter it is one column, named as the header; a reader may refuse that.",
            delimiter=";",
            options={"delim": ";"},
            before=joined(["id;name", "1;2"]),
        ),
    ]


def _thousand(last: int) -> str:
    return joined([",".join(f"c{n}" for n in range(1_000)), ",".join(["1"] * 1_000), ",".join(["2"] * last)])


def _quotes() -> list[Case]:
    long_text = "\n".join(f"line {number}" for number in range(10_000))
    plain = '{},"{}",1.5'
    return [
        valid("all_quoted", joined(['"id","name","amount"', '"1","a","1.5"', '"2","b","2.5"'])),
        valid("doubled_quotes", joined(lines(5, line3='3,"say ""hi""",3.5'))),
        valid("doubled_quotes_beyond_the_sample", joined(lines(MANY, line24000='3,"say ""hi""",3.5'))),
        valid("quoted_delimiter", joined(lines(5, line3='3,"a,b",3.5'))),
        valid("first_quoted_delimiter_beyond_the_sample", joined(lines(MANY, line24000='3,"a,b",3.5'))),
        valid("quoted_newline", joined(lines(5, line3='3,"a\nb",3.5'))),
        valid("first_quoted_newline_beyond_the_sample", joined(lines(MANY, line24000='3,"a\nb",3.5'))),
        valid("quoted_crlf_among_lf", joined(lines(5, line3='3,"a\r\nb",3.5'))),
        valid("quoted_lf_among_crlf", joined(lines(5, line3='3,"a\nb",3.5'), "\r\n")),
        valid("quoted_cr", joined(lines(5, line3='3,"a\rb",3.5'))),
        valid("quoted_blank_lines", joined(lines(5, line3='3,"a\n\n\nb",3.5'))),
        valid("quoted_text_of_10000_lines", joined(lines(5, line3=f'3,"{long_text}",3.5'))),
        valid("quoted_rows_within_a_field", joined([HEADER, '1,"a,1.5\n2,b",2.5', "3,c,3.5"])),
        valid("field_of_one_quote", joined(lines(5, line3='3,"""",3.5'))),
        valid("field_of_quotes_alone", joined(lines(5, line3='3,"""""""",3.5'))),
        valid("quoted_last_field_without_newline", 'id,name\n1,"a"\n2,"b"'),
        valid("quoted_newlines_in_many_rows", joined([HEADER, *(f'{n},"a\nb {n}",1.5' for n in range(15_000))])),
        malformed("unclosed_quote_in_the_header", joined(['id,"name,amount', "1,a,1.5"]), at=(1, 2, 3)),
        malformed("unclosed_quote_early", joined(lines(9, line2='2,"n2,2.5')), at=(2, 9, 10)),
        malformed("unclosed_quote_in_the_middle", joined(lines(99, line50='50,"n,50.5')), at=(50, 99, 100)),
        malformed("unclosed_quote_in_the_last_row", joined(lines(1_000, line1000='1,"n,1.5')), at=(1_000, 1_001)),
        malformed("unclosed_quote_at_the_end", 'id,name\n1,a\n2,"', at=3),
        malformed(
            "unclosed_quote_beyond_the_sample", joined(lines(MANY, line24000='1,"n,1.5')), at=(24_000, 25_000, 25_001)
        ),
        malformed(
            "unclosed_quote_beyond_small_buffers",
            joined(lines(MANY, line24999='1,"n,1.5')),
            at=(24_999, 25_000, 25_001),
            options=_SMALL_BUFFERS,
        ),
        malformed("unclosed_quote_of_the_last_field", joined(lines(9, line5='5,n5,"5.5')), at=(5, 9, 10)),
        malformed(
            "unclosed_quote_and_a_later_pair", joined(lines(9, line3='3,"n3,3.5', line6='6,"n6",6.5')), at=range(3, 7)
        ),
        malformed(
            "unclosed_quote_and_a_pair_beyond_the_sample",
            joined(lines(MANY, line24000='3,"n3,3.5', line24500='6,"n6",6.5')),
            at=(24_000, 24_500),
        ),
        malformed(
            "unclosed_quote_of_5_mb", joined([HEADER, '1,"a,1.5', *map(row, range(250_000))]), at=(2, 250_002, 250_003)
        ),
        malformed("quote_that_closes_too_early", joined(lines(9, line5='5,"n"5,5.5')), at=5),
        malformed("text_after_a_quote", joined(lines(9, line5='5,"n5"x,5.5')), at=5),
        malformed("text_after_a_quote_beyond_the_sample", joined(lines(MANY, line24000='5,"n5"x,5.5')), at=24_000),
        ambiguous(
            "space_after_a_quote",
            joined(lines(9, line5='5,"n5" ,5.5')),
            csv_table(joined(lines(9)).encode()),
            why=_SPACES,
            at=[5],
        ),
        malformed("three_quotes", joined(lines(9, line5='5,""",5.5')), at=(5, 9, 10)),
        malformed("quotes_that_are_not_doubled", joined(lines(9, line5='5,"say "hi"",5.5')), at=5),
        malformed("quotes_of_print_around_a_comma", joined(lines(9, line5="5,\u201cn,5\u201d,5.5")), at=5),
        ambiguous(
            "space_before_a_quoted_comma",
            joined(lines(9, line5='5, "a, b",5.5')),
            csv_table(joined(lines(9, line5='5,"a, b",5.5')).encode()),
            why=_SPACES,
            at=[5],
        ),
        malformed("only_a_quote", '"', at=1),
        ambiguous(
            "space_before_a_quote",
            joined(lines(9, line5='5, "n5",5.5')),
            csv_table(joined(lines(9, line5='5, "n5",5.5')).encode()),
            csv_table(joined(lines(9)).encode()),
            why=_SPACES,
            at=[5],
        ),
        ambiguous("text_before_a_quote", joined(lines(9, line5='5,x"n5",5.5')), why=_LITERAL, at=[5]),
        ambiguous("quote_within_a_field", joined(lines(9, line5='5,5" pipe,5.5')), why=_LITERAL, at=[5]),
        ambiguous(
            "quote_within_a_field_beyond_the_sample",
            joined(lines(MANY, line24000='5,5" pipe,5.5')),
            why=_LITERAL,
            at=[24_000],
        ),
        ambiguous(
            "quotes_within_many_fields",
            joined([HEADER, *(f'{n},{n}" pipe,1.5' for n in range(9))]),
            why=_LITERAL,
            at=[2],
        ),
        ambiguous(
            "backslash_before_a_quote",
            joined(lines(9, line5=r'5,"say \"hi\"",5.5')),
            csv_table(joined(lines(9, line5=r'5,"say \"hi\"",5.5')).encode(), escapechar="\\", doublequote=False),
            why="By RFC 4180 the second quote ends the field; a reader may detect the backslash as escape.",
            at=[5],
        ),
        valid(
            "backslash_is_the_escape",
            joined(lines(9, line5=r'5,"say \"hi\"",5.5')),
            options={"escape": "\\", "quote": '"'},
            escapechar="\\",
            doublequote=False,
        ),
        valid("backslash_without_a_quote", joined(lines(9, line5=r"5,C:\new\table,5.5"))),
        valid("backslash_at_the_end_of_a_quoted_field", joined(lines(9, line5='5,"C:\\dir\\",5.5'))),
        ambiguous(
            "single_quotes_around_a_comma",
            joined([HEADER, *(f"{n},'a, {n}',1.5" for n in range(9))]),
            csv_table(joined([HEADER, *(f"{n},'a, {n}',1.5" for n in range(9))]).encode(), quotechar="'"),
            why="Single quotes mean nothing in RFC 4180; a reader may detect them.",
            at=[2],
        ),
        malformed("single_quotes_in_one_row", joined(lines(9, line5="5,'a, 5',5.5")), at=5),
        valid("apostrophes", joined(lines(9, line5="5,O'Neill,5.5", line7="7,'quoted',7.5"))),
        valid(
            "single_quotes_are_given",
            joined([HEADER, "1,'a, b',1.5", "2,'it''s',2.5"]),
            options={"quote": "'", "escape": "'"},
            quotechar="'",
        ),
        valid("quoted_numbers", joined([HEADER, *(plain.format(f'"{n}"', n) for n in range(5))])),
        valid("empty_quoted_fields", joined([HEADER, '1,"",1.5', '2,x,""', '"","",""'])),
    ]


def _delimiters() -> list[Case]:
    def other(delimiter: str) -> str:
        return joined(lines(9)).replace(",", delimiter)

    semicolons = joined([HEADER, *(row(n).replace(",", ";") for n in range(2, 9))])
    with_commas = joined(["id;name;amount", "1;a;1,5", "2;b;2,5", "3;c, d;3,5"])
    return [
        ambiguous("semicolons", other(";"), why=_DELIMITER, delimiter=";"),
        ambiguous("pipes", other("|"), why=_DELIMITER, delimiter="|"),
        ambiguous("tabs_in_a_csv_file", other("\t"), why=_DELIMITER, delimiter="\t"),
        valid("tabs_in_a_tsv_file", other("\t"), file="data.tsv", delimiter="\t"),
        malformed("short_row_in_a_tsv_file", joined(["id\tname", "1\ta", "2"]), at=3, file="data.tsv", delimiter="\t"),
        valid("semicolons_are_given", other(";"), options={"delim": ";"}, delimiter=";"),
        malformed("short_row_of_semicolons", other(";") + "1;2\n", at=10, options={"delim": ";"}, delimiter=";"),
        ambiguous("semicolons_and_decimal_commas", with_commas, why=_DELIMITER, delimiter=";"),
        valid("given_semicolons_and_decimal_commas", with_commas, options={"delim": ";"}, delimiter=";"),
        valid(
            "two_characters_are_given",
            joined(["id||name", "1||a|b", "2||c"]),
            options={"delim": "||"},
            expected=table(["id", "name"], ["1", "a|b"], ["2", "c"]),
            before=joined(["id||name", "1||x"]),
        ),
        malformed("other_delimiter_from_the_middle_on", joined([*lines(9), "10;n;1.5", "11;n;1.5"]), at=10),
        malformed("other_delimiter_beyond_the_sample", joined([*lines(MANY), *["1;n;1.5"] * 2_000]), at=MANY + 1),
        malformed("other_delimiter_for_a_half", joined([*lines(9), *["1;n;1.5"] * 9]), at=10),
        malformed("header_has_commas_and_rows_semicolons", semicolons, at=(1, 2)),
        malformed("header_has_semicolons_and_rows_commas", joined(["id;name;amount", *lines(9)[1:]]), at=(1, 2)),
        valid("semicolons_in_the_data", joined([HEADER, *(f"{n},a;b;c,{n}.5" for n in range(9))])),
        valid("as_many_semicolons_as_commas", joined(["id,name;x,amount", *(f"{n},a;b,{n}.5" for n in range(9))])),
        valid("tabs_in_the_data", joined([HEADER, *(f"{n},a\tb,{n}.5" for n in range(9))])),
        valid("pipes_in_the_data", joined([HEADER, *(f"{n},a|b|c|d,{n}.5" for n in range(9))])),
        valid("spaces_in_the_data", joined([HEADER, *(f"{n},a b c,{n}.5" for n in range(9))])),
        valid("colons_in_the_data", joined([HEADER, *(f"{n},a:b:c,{n}.5" for n in range(9))])),
        ambiguous(
            "excel_names_the_delimiter",
            joined(["sep=;", "id;name", "1;a", "2;b"]),
            table(["id", "name"], ["1", "a"], ["2", "b"]),
            table(["sep=", ""], ["id", "name"], ["1", "a"], ["2", "b"]),
            why="Excel's line with the delimiter is a convention that no format defines.",
            at=(1, 2),
        ),
        valid("rows_of_delimiters_alone", joined([HEADER, "1,a,1.5", ",,", "2,b,2.5", ",,"])),
        valid("only_rows_of_delimiters", joined([HEADER, ",,", ",,"])),
        valid("last_column_is_always_empty", joined([HEADER, "1,a,", "2,b,", "3,c,"])),
        valid("first_column_is_always_empty", joined([HEADER, ",a,1.5", ",b,2.5"])),
    ]


def _line_ends() -> list[Case]:
    data = lines(9)
    crlf_later = joined(data) + joined([row(n) for n in range(9)], "\r\n")
    lf_later = joined(data, "\r\n") + joined([row(n) for n in range(9)])
    return [
        valid("lf", joined(data)),
        valid("crlf", joined(data, "\r\n")),
        valid("cr", joined(data, "\r")),
        valid("lf_without_the_last", joined(data).removesuffix("\n")),
        valid("crlf_without_the_last", joined(data, "\r\n").removesuffix("\r\n")),
        valid("crlf_of_many_rows", joined(lines(MANY), "\r\n")),
        ambiguous("lf_and_then_crlf", crlf_later, why=_LINE_ENDS, at=[10, 9]),
        ambiguous("crlf_and_then_lf", lf_later, why=_LINE_ENDS, at=[9, 10]),
        ambiguous(
            "lf_and_crlf_in_turn",
            joined([*data[:1], *(f"{line}\r\n{line}" for line in data[1:])]),
            why=_LINE_ENDS,
            at=[1, 2, 3],
        ),
        ambiguous(
            "crlf_beyond_the_sample",
            joined(lines(MANY)) + joined(lines(9)[1:], "\r\n"),
            why=_LINE_ENDS,
            at=[MANY, MANY + 1],
        ),
        ambiguous("cr_and_then_lf", joined(data, "\r") + joined([row(1)]), why=_LINE_ENDS, at=[9, 10]),
        ambiguous("last_row_ends_with_cr", joined(data) + "10,n,1.5\r", why=_LINE_ENDS, at=[9, 10]),
        malformed("cr_within_a_field", joined(lines(9, line5="5,n\r5,5.5")), at=(5, 6)),
        malformed(
            "cr_within_a_field_beyond_the_sample", joined(lines(MANY, line24000="5,n\r5,5.5")), at=(24_000, 24_001)
        ),
        malformed("lf_within_a_field", joined(lines(9, line5="5,n\n5,5.5"), "\r\n"), at=(5, 6)),
        ambiguous(
            "cr_cr_lf",
            joined(data, "\r\r\n"),
            csv_table(joined(data).encode()),
            why="A program that wrote CRLF in text mode: each row ends with a CR too many.",
            at=range(1, 20),
        ),
        valid(
            "line_ends_of_unicode_in_fields", joined([HEADER, "1,a\u2028b,1.5", "2,a\x85b,2.5", "3,a\x0bb\x0cc,3.5"])
        ),
        malformed("end_of_file_character_of_dos", joined(data) + "\x1a", at=10),
    ]


def _blank_lines() -> list[Case]:
    data = lines(9)
    skipped = csv_table(joined(data).encode())
    return [
        ambiguous("blank_line_first", joined(["", *data]), skipped, why=_BLANK, at=[1, 2]),
        ambiguous("blank_crlf_line_first_among_lf", "\r\n" + joined(data), skipped, why=_BLANK, at=[1, 2]),
        ambiguous(
            "blank_crlf_line_first_and_one_row",
            "\r\nid,name\n0,\n",
            table(["id", "name"], ["0", None]),
            why=_BLANK,
            at=[1, 2],
        ),
        ambiguous("blank_line_after_the_header", joined([data[0], "", *data[1:]]), skipped, why=_BLANK, at=[2]),
        ambiguous("blank_line_in_the_middle", joined([*data[:4], "", *data[4:]]), skipped, why=_BLANK, at=[5]),
        ambiguous("blank_line_last", joined([*data, ""]), skipped, why=_BLANK, at=[10]),
        ambiguous("many_blank_lines_last", joined([*data, *[""] * 50]), skipped, why=_BLANK, at=[10]),
        ambiguous(
            "many_blank_lines_in_the_middle", joined([*data[:4], *[""] * 500, *data[4:]]), skipped, why=_BLANK, at=[5]
        ),
        ambiguous("blank_line_after_each_row", joined(data, "\n\n"), skipped, why=_BLANK, at=[2]),
        ambiguous("blank_crlf_line_after_each_row", joined(data, "\r\n\r\n"), skipped, why=_BLANK, at=[2]),
        ambiguous(
            "blank_line_beyond_the_sample",
            joined(lines(MANY, line24000=f"\n{row(24_000)}")),
            csv_table(joined(lines(MANY)).encode()),
            why=_BLANK,
            at=[24_000],
        ),
        malformed("line_of_spaces", joined([*data[:4], "   ", *data[4:]]), at=5),
        malformed("line_of_spaces_last", joined([*data, "   "]), at=10),
        malformed("line_of_a_tab", joined([*data[:4], "\t", *data[4:]]), at=5),
        malformed("line_of_spaces_beyond_the_sample", joined(lines(MANY, line24000="   ")), at=24_000),
        ambiguous(
            "blank_line_among_rows_of_one_column",
            joined(["name", "a", "", "b"]),
            table(["name"], ["a"], [None], ["b"]),
            table(["name"], ["a"], ["b"]),
            why=_BLANK,
            at=[3],
        ),
        ambiguous(
            "blank_line_after_rows_of_one_column",
            joined(["name", "a", "b", ""]),
            table(["name"], ["a"], ["b"], [None]),
            table(["name"], ["a"], ["b"]),
            why=_BLANK,
            at=[4],
        ),
        valid("quoted_nothing_in_one_column", joined(["name", "a", '""', "b"])),
        malformed("only_blank_lines", "\n\n\n\n"),
        ambiguous(
            "only_spaces", "   \n   \n", table(["   "], ["   "]), table(None, ["   "], ["   "]), why=_BLANK, at=[1]
        ),
    ]
