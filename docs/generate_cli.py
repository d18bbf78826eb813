"""Writes what the commands' parsers say of themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from airflow_provider_datapipe.cli.program import _parser as datapipe_parser
from datapipe_local.cli.program import _parser as local_parser


def page() -> str:
    """Give the text of the page."""
    parts = [
        "Commands",
        "========",
        "",
        "``airflow datapipe`` has the commands of ``datapipe``, too (Airflow 3.2 or later).",
        "",
    ]
    for parser in (datapipe_parser(), local_parser()):
        parts += [*_of(parser, "-"), ""]
        for action in parser._actions:  # noqa: SLF001 - argparse shows its parts nowhere else
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
                for name, command in action.choices.items():
                    parts += [*_of(command, "~", title=f"{parser.prog} {name}"), ""]
    return "\n".join(parts)


def _of(parser: argparse.ArgumentParser, line: str, title: str | None = None) -> Iterator[str]:
    title = title or parser.prog
    yield from (title, line * len(title), "")
    if parser.description:
        yield from (parser.description, "")
    yield from (".. code-block:: text", "")
    yield from (f"   {each}".rstrip() for each in usage(parser).splitlines())
    yield ""
    options = [action for action in parser._actions if _is_told(action)]  # noqa: SLF001 - the same
    if options:
        yield from (".. list-table::", "   :header-rows: 1", "   :widths: 2 3", "")
        yield from ("   * - Option", "     - Meaning")
        for action in options:
            yield f"   * - {_spelling(action)}"
            yield f"     - {_meaning(parser, action)}"
        yield ""
    if parser.epilog:
        yield from (f"{parser.epilog[0].upper()}{parser.epilog[1:]}.", "")


def usage(parser: argparse.ArgumentParser) -> str:
    """Write how a command is called, in lines of a width that does not depend on the terminal."""
    width = 88
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=width)
    return parser.format_usage().removeprefix("usage: ")


def _is_told(action: argparse.Action) -> bool:
    return action.dest != "help" and not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - the same


def _spelling(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action) or action.dest.upper()}"
    return ", ".join(f"``{flag}{value}``" for flag in action.option_strings) or f"``{action.metavar or action.dest}``"


def _choices(action: argparse.Action) -> str:
    return f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001 - fills in %(default)s
    text = " ".join(text.split()).replace("*", r"\*").replace("|", r"\|").replace("`", "``").replace("````", "``")
    # Else they become a dash.
    text = text.replace("--", r"\-\-")
    return f"{text} (required)" if action.required else text
