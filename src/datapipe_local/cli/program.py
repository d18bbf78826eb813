"""Command line. Each command imports its modules when it runs, so that every command starts fast."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from datapipe_local.common.errors import SetupError
from datapipe_local.server import logging as logs
from datapipe_local.storage.home import KEY_VARIABLE, Home, check_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datapipe_local.connectors.egress import EgressRule

_LAST_PORT = 65_535
_CONTROL_VARIABLE = "DATAPIPE_LOCAL_CONTROL"
_SCHEDULES_VARIABLE = "DATAPIPE_LOCAL_SCHEDULES"
_OLDER_VARIABLE = "DATAPIPE_LOCAL_OLDER_DESCRIPTION"
_MEMORY_VARIABLE = "DATAPIPE_LOCAL_MEMORY_LIMIT"
_PREVIEW_VARIABLE = "DATAPIPE_LOCAL_PREVIEW_TIME_LIMIT"
_HOSTS_VARIABLE = "DATAPIPE_LOCAL_ALLOWED_HOSTS"
_EGRESS_VARIABLE = "DATAPIPE_LOCAL_HTTP_DESTINATIONS"
_PREVIEW_SECONDS = "30"
_DEFAULT_LIMIT = 100
#: Query previews return at most this number of rows.
_LARGEST_LIMIT = 1_000
_EGRESS_RULES = ("public", "loopback", "private", "any")
#: Exit status that shells use for a command stopped by Ctrl-C.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    :param arguments: The command and its options; ``None`` for those of this process.
    :return: The exit status: 0 done, 1 refused, 2 usage error, 130 interrupted. ``status`` also returns 3 or 4.
    """
    options = argparse.Namespace()
    try:
        options = _parser().parse_args(arguments)
        status = _COMMANDS[options.command](options)
        sys.stdout.flush()
    except SetupError as error:
        print(f"datapipe-local: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader, such as head, closed the pipe. Redirect stdout: Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        from datapipe_local.storage import write_failures

        folder = getattr(options, "home", None)
        failed = write_failures.failure(error, folder)
        if failed is None:
            raise
        message = failed.at(folder.absolute()) if folder is not None else f"{failed.reason}: {failed.advice}"
        print(f"datapipe-local: {message}.", file=sys.stderr)
        return 1
    return status or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="datapipe-local", description="The data pipeline service on one machine, with a DuckDB warehouse."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    init = commands.add_parser("init", help="create the home, and apply a seed to it")
    _add_home(init)
    init.add_argument("--seed", type=_path, metavar="FILE", help="YAML file of connections, syncs, transforms")
    init.add_argument(
        "--api-key",
        type=_text,
        metavar="KEY",
        help=f"API key of the clients (default: {KEY_VARIABLE}, otherwise a random key)",
    )

    serve = commands.add_parser("serve", help="run the service until SIGTERM or Ctrl-C")
    _add_home(serve)
    serve.add_argument("--host", type=_text, default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--allow-host",
        type=_text,
        action="append",
        metavar="NAME",
        help="host name of the service, besides localhost; can be given several times"
        f" (or {_HOSTS_VARIABLE}, with commas)",
    )
    serve.add_argument(
        "--port", type=_port, default=8484, metavar="N", help="port, 0 for a free one (default: %(default)s)"
    )
    serve.add_argument(
        "--control",
        action="store_true",
        help=f"enable the control plane under /_local/, for tests: journal, faults, reset (or {_CONTROL_VARIABLE}=1)",
    )
    serve.add_argument("--init", action="store_true", help="create the home if it does not exist")
    serve.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when the standard input ends, for example when the parent process ends",
    )
    serve.add_argument(
        "--log-format",
        choices=logs.FORMATS,
        default=logs.FORMATS[0],
        help="format of the log on the standard error (default: %(default)s)",
    )
    serve.add_argument(
        "--http-destinations",
        choices=_EGRESS_RULES,
        metavar="RULE",
        help="addresses that reverse ETL sends to over HTTP: public; loopback (also this machine); private (also"
        f" private networks); any (also link-local and cloud metadata) (or {_EGRESS_VARIABLE}; default: loopback)",
    )
    serve.add_argument(
        "--memory-limit",
        type=_size,
        default=os.environ.get(_MEMORY_VARIABLE) or None,
        metavar="SIZE",
        help=f"memory limit of the warehouse, such as 2GB; larger data spills to disk (or {_MEMORY_VARIABLE};"
        " default: four fifths of the machine's memory). Query previews may use the same amount again",
    )
    serve.add_argument(
        "--preview-time-limit",
        type=_seconds,
        default=os.environ.get(_PREVIEW_VARIABLE) or _PREVIEW_SECONDS,
        metavar="SECONDS",
        help=f"time limit of a query preview (or {_PREVIEW_VARIABLE}; default: 30)",
    )
    serve.add_argument(
        "--no-schedules",
        action="store_true",
        help=f"start no scheduled runs, only requested ones (or {_SCHEDULES_VARIABLE}=0)",
    )

    serve.add_argument(
        "--older-description",
        action="store_true",
        help="omit the schedule fields that services with the older interface description do not declare"
        f" (or {_OLDER_VARIABLE}=1, or responses.older_description of the seed)",
    )

    reset = commands.add_parser("reset", help="empty the home, but keep its key; not while the service runs")
    _add_home(reset)
    reset.add_argument("--keep-seed", action="store_true", help="apply again all seeds that were applied")

    status = commands.add_parser(
        "status", help="show the content of the home, and if its service runs (exit status 0) or not (3 or 4)"
    )
    _add_home(status)
    status.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")

    export = commands.add_parser("export", help="export the content of the home; not while the service runs")
    _add_home(export)
    export.add_argument("--seed", type=_path, metavar="FILE", help="new file for all resources, as a seed")
    export.add_argument("--tables", type=_path, metavar="DIR", help="new folder for the tables and views, as files")
    export.add_argument("--table-format", choices=("parquet", "csv"), default="parquet", help="default: %(default)s")

    query = commands.add_parser(
        "query", help="print the rows of a query over the warehouse; also while the service runs"
    )
    _add_home(query)
    query.add_argument("--format", choices=("table", "json", "csv"), default="table", help="default: %(default)s")
    query.add_argument(
        "--limit",
        type=_limit,
        default=_DEFAULT_LIMIT,
        metavar="N",
        help=f"print at most N rows, up to {_LARGEST_LIMIT} (default: %(default)s)",
    )
    query.add_argument("sql", type=_text, metavar="SQL", help='the query, such as "SELECT * FROM shop.people"')

    commands.add_parser("schema", help="print the JSON Schema of the seed, for editors")
    return parser


def _add_home(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=_path, required=True, metavar="DIR", help="folder of the service's state")


def _text(text: str) -> str:
    # An unset variable of a script gives an empty option: as an address it would mean all, as a folder the current one.
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty: give a value, or omit the option")
    return text


def _path(text: str) -> Path:
    return Path(_text(text))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def _size(text: str) -> str:
    # DuckDB's units. It does not start with less than a megabyte.
    if not re.fullmatch(r"[1-9][0-9]{0,8}(MB|GB|TB|MiB|GiB|TiB)", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: use one such as 512MB (or in {_MEMORY_VARIABLE})")
    return text


def _limit(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text) or int(text) > _LARGEST_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows: use a number from 1 to {_LARGEST_LIMIT}")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds: give one such as 30 or 0.5 (or in {_PREVIEW_VARIABLE})"
        )
    return float(text)


def _is_on(variable: str, *, default: bool) -> bool:
    wanted = os.environ.get(variable, "")
    if wanted not in {"", "0", "1"}:
        raise SetupError(f"{variable} is {wanted[:100]!r}: set it to 1 or 0.")
    return wanted == "1" if wanted else default


def _egress_rule(option: str | None) -> EgressRule:
    from datapipe_local.connectors.egress import EgressRule

    rule = option or os.environ.get(_EGRESS_VARIABLE) or EgressRule.LOOPBACK.value
    if rule not in _EGRESS_RULES:
        raise SetupError(f"{_EGRESS_VARIABLE} is {rule[:100]!r}: set it to one of {', '.join(_EGRESS_RULES)}.")
    return EgressRule(rule)


def _wanted_key(option: str | None) -> str | None:
    wanted = option or os.environ.get(KEY_VARIABLE) or None
    if wanted is not None:
        check_key(wanted)
    return wanted


def _allowed_hosts(options: argparse.Namespace, address: str) -> frozenset[str] | None:
    """Return the allowed ``Host`` names; ``None`` allows any: other machines can connect, and none is configured."""
    import ipaddress

    from datapipe_local.common.authority import is_loopback

    variable = (name.strip() for name in os.environ.get(_HOSTS_VARIABLE, "").split(","))
    names = {_host_name(name, _HOSTS_VARIABLE) for name in variable if name}
    names |= {_host_name(name, "--allow-host") for name in options.allow_host or []}
    if not names and not is_loopback(ipaddress.ip_address(address)):
        return None
    return frozenset({*names, options.host.lower()})


def _host_name(text: str, option: str) -> str:
    """
    Return a host name in the form that the check of the ``Host`` header compares.

    :raises SetupError: it is not a host name.
    """
    from datapipe_local.common.authority import parse_authority

    try:
        authority = parse_authority(text)
    except ValueError:
        authority = None
    if authority is None or authority.port is not None:
        raise SetupError(
            f"{option}: {text[:100]!r} is not a host name: give one such as datapipe.example, without scheme, port"
            " and wildcard, and international names in their xn-- form."
        )
    return authority.host


def _initialized_home(options: argparse.Namespace) -> Home:
    home = Home(options.home)
    if not home.is_initialised:
        raise SetupError(f"{home.folder} is not initialised: run `datapipe-local init --home {home.folder}` first.")
    return home


def _init(options: argparse.Namespace) -> None:
    wanted_key = _wanted_key(options.api_key)
    from datapipe_local.cli.home_commands import initialise

    print(*initialise(Home(options.home), options.seed, wanted_key), sep="\n")


def _reset(options: argparse.Namespace) -> None:
    from datapipe_local.cli.home_commands import reset

    print(*reset(_initialized_home(options), keep_seed=options.keep_seed), sep="\n")


def _status(options: argparse.Namespace) -> int:
    from datapipe_local.cli import status

    found, exit_status = status.status(_initialized_home(options))
    print(status.as_json(found) if options.format == "json" else status.as_text(found))
    return exit_status


def _export(options: argparse.Namespace) -> None:
    if options.seed is None and options.tables is None:
        raise SetupError("Nothing to export: give --seed FILE, --tables DIR, or both.")
    from datapipe_local.cli.home_commands import export

    print(*export(_initialized_home(options), options.seed, options.tables, options.table_format), sep="\n")


def _query(options: argparse.Namespace) -> None:
    from datapipe_local.cli.query import run_query
    from datapipe_local.cli.query_formats import FORMATS

    try:
        seconds = _seconds(os.environ.get(_PREVIEW_VARIABLE) or _PREVIEW_SECONDS)
    except argparse.ArgumentTypeError as error:
        raise SetupError(f"{error}.") from error
    found = run_query(_initialized_home(options), options.sql, seconds=seconds)
    rows = found.rows[: options.limit]
    if text := FORMATS[options.format](rows, found.total):
        print(text)
    if len(rows) < found.total:
        remedy = "raise --limit" if len(rows) < len(found.rows) else "use LIMIT and OFFSET in the query, or `export`"
        print(
            f"datapipe-local: These are {len(rows):,} of {found.total:,} rows: to see more, {remedy}.", file=sys.stderr
        )


def _schema(options: argparse.Namespace) -> None:
    import json

    from datapipe_local.seed.schema import schema

    print(json.dumps(schema(), indent=2))


def _serve(options: argparse.Namespace) -> None:
    home = Home(options.home)
    with_control = options.control or _is_on(_CONTROL_VARIABLE, default=False)
    with_schedules = not options.no_schedules and _is_on(_SCHEDULES_VARIABLE, default=True)
    older_description = options.older_description or _is_on(_OLDER_VARIABLE, default=False)
    http_destinations = _egress_rule(options.http_destinations)
    if options.stop_with_stdin:
        from datapipe_local.server import parent_watchdog

        parent_watchdog.stop_with_stdin()
    if options.init:
        home.create()
    else:
        _initialized_home(options)
    logs.configure(options.log_format)
    # The imported modules stay: garbage collection of them takes a twentieth of the startup time.
    gc.disable()
    with home.locked():
        from datapipe_local.server.process import listen, serve

        # Bind the port first, so that a port conflict is reported at once.
        with listen(options.host, options.port) as listener:
            from datapipe_local.server.app import running_app

            if options.init:
                home.keep_key(_wanted_key(None))
            with running_app(
                home,
                with_control=with_control,
                with_schedules=with_schedules,
                older_description=older_description,
                memory_limit=options.memory_limit,
                preview_seconds=options.preview_time_limit,
                hosts=_allowed_hosts(options, listener.getsockname()[0]),
                http_destinations=http_destinations,
            ) as app:
                gc.enable()
                serve(app, listener, ready=home.note_address, with_control=with_control)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "init": _init,
    "serve": _serve,
    "reset": _reset,
    "status": _status,
    "export": _export,
    "query": _query,
    "schema": _schema,
}
