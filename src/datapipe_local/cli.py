"""The command line. Imports what a command needs when it runs, so that each of them starts fast."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from datapipe_local.errors import SetupError
from datapipe_local.home import KEY_VARIABLE, Home

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST_PORT = 65_535
_CONTROL_VARIABLE = "DATAPIPE_LOCAL_CONTROL"
_SCHEDULES_VARIABLE = "DATAPIPE_LOCAL_SCHEDULES"


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    :param arguments: The command and its options; those of this process when ``None``.
    :return: The exit status: 0 done, 1 refused, 2 misspelt.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.command == "init":
            _init(Home(options.home), options.seed, options.api_key)
        else:
            _serve(
                Home(options.home),
                options.host,
                options.port,
                with_control=options.control or _is_on(_CONTROL_VARIABLE, default=False),
                with_schedules=not options.no_schedules and _is_on(_SCHEDULES_VARIABLE, default=True),
            )
    except SetupError as error:
        print(f"datapipe-local: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="datapipe-local", description="The data pipeline service on one machine, with a DuckDB warehouse."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    init = commands.add_parser("init", help="create the home, and apply a seed to it")
    _add_home(init)
    init.add_argument("--seed", type=Path, metavar="FILE", help="YAML file of connections, syncs, transforms")
    init.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"the key that clients send; else {KEY_VARIABLE}, else one is made up",
    )

    serve = commands.add_parser("serve", help="answer requests until SIGTERM or Ctrl-C")
    _add_home(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", type=_port, default=8484, metavar="N", help="0 takes a free one (default: %(default)s)"
    )
    serve.add_argument(
        "--control",
        action="store_true",
        help=f"have a control plane under /_local/, for tests: journal, faults, reset (or {_CONTROL_VARIABLE}=1)",
    )
    serve.add_argument(
        "--no-schedules",
        action="store_true",
        help=f"run nothing but what is asked for, so that a test does not meet midnight (or {_SCHEDULES_VARIABLE}=0)",
    )
    return parser


def _add_home(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=Path, required=True, metavar="DIR", help="the folder of all state")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def _is_on(variable: str, *, default: bool) -> bool:
    wanted = os.environ.get(variable, "")
    if wanted not in {"", "0", "1"}:
        raise SetupError(f"{variable} is {wanted[:100]!r}: set it to 1 or 0.")
    return wanted == "1" if wanted else default


def _init(home: Home, seed_file: Path | None, api_key: str | None) -> None:
    wanted_key = api_key or os.environ.get(KEY_VARIABLE) or None
    if wanted_key is not None and not (wanted_key.isascii() and wanted_key.isprintable() and " " not in wanted_key):
        raise SetupError("The API key must consist of printable ASCII characters without spaces.")
    from datapipe_local.setup import initialise

    for line in initialise(home, seed_file, wanted_key):
        print(line)


def _serve(home: Home, host: str, port: int, *, with_control: bool, with_schedules: bool) -> None:
    if not home.is_initialised:
        raise SetupError(f"{home.folder} is not initialised: run `datapipe-local init --home {home.folder}` first.")
    # What is imported stays: to look for garbage among it is a twentieth of the time until the service is ready.
    gc.disable()
    with home.locked():
        from datapipe_local.server import configure_logging, listen, serve

        # The port first: whoever finds it taken should hear so at once.
        with listen(host, port) as listener:
            from datapipe_local.app import running_app

            configure_logging()
            with running_app(home, with_control=with_control, with_schedules=with_schedules) as app:
                gc.enable()
                serve(app, listener, with_control=with_control)
