"""Registration of ``airflow datapipe`` (``cli`` in the provider info)."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand

from airflow_provider_datapipe.cli.command import DONE, Command
from airflow_provider_datapipe.cli.program import COMMANDS, HELP, run_command


def get_datapipe_cli_commands() -> list[CLICommand]:
    """Return the commands in the format of Airflow's CLI."""
    return [
        GroupCommand(
            name="datapipe",
            help=HELP,
            subcommands=[
                ActionCommand(
                    name=command.name,
                    help=command.help,
                    func=partial(_run_and_exit, command),
                    args=[Arg(flags=option.flags, **option.settings) for option in command.options],
                    epilog=command.epilog,
                )
                for command in COMMANDS
            ],
        )
    ]


def _run_and_exit(command: Command, options: argparse.Namespace) -> None:
    status = run_command(command, options)
    # Airflow ignores the return value of a command.
    if status != DONE:
        sys.exit(status)
