"""The command line. Imports what a command needs when it runs, so that each of them starts fast."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from datapipe_local import logs
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
            _serve(options)
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
    serve.add_argument("--init", action="store_true", help="create the home where there is none")
    serve.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when the standard input ends: whoever holds the other end is not outlived",
    )
    serve.add_argument(
        "--log-format",
        choices=logs.FORMATS,
        default=logs.FORMATS[0],
        help="of the standard error (default: %(default)s)",
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


def _wanted_key(option: str | None) -> str | None:
    wanted = option or os.environ.get(KEY_VARIABLE) or None
    if wanted is not None and not (wanted.isascii() and wanted.isprintable() and " " not in wanted):
        raise SetupError("The API key must consist of printable ASCII characters without spaces.")
    return wanted


def _not_initialised(home: Home) -> SetupError:
    return SetupError(f"{home.folder} is not initialised: run `datapipe-local init --home {home.folder}` first.")


def _init(home: Home, seed_file: Path | None, api_key: str | None) -> None:
    wanted_key = _wanted_key(api_key)
    from datapipe_local.setup import initialise

    for line in initialise(home, seed_file, wanted_key):
        print(line)


def _serve(options: argparse.Namespace) -> None:
    home = Home(options.home)
    with_control = options.control or _is_on(_CONTROL_VARIABLE, default=False)
    with_schedules = not options.no_schedules and _is_on(_SCHEDULES_VARIABLE, default=True)
    if options.stop_with_stdin:
        from datapipe_local import leash

        leash.stop_with_stdin()
    if options.init:
        home.create()
    elif not home.is_initialised:
        raise _not_initialised(home)
    # What is imported stays: to look for garbage among it is a twentieth of the time until the service is ready.
    gc.disable()
    with home.locked():
        from datapipe_local.server import listen, serve

        # The port first: whoever finds it taken should hear so at once.
        with listen(options.host, options.port) as listener:
            from datapipe_local.app import running_app

            logs.configure(options.log_format)
            if options.init:
                home.keep_key(_wanted_key(None))
            with running_app(home, with_control=with_control, with_schedules=with_schedules) as app:
                gc.enable()
                serve(app, listener, ready=home.note_address, with_control=with_control)
