"""The ``datapipe`` program. It requires Airflow only for ``--connection``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from airflow_provider_datapipe.cli import apply, deploy, graph, plan, pull, schema, snapshot
from airflow_provider_datapipe.cli.command import (
    FAILED,
    INVALID_ARGUMENTS,
    Command,
    CommandError,
    InvalidArgumentsError,
)
from airflow_provider_datapipe.cli.output import discard_broken_output, make_writable

#: All commands, in the order of the help.
COMMANDS: tuple[Command, ...] = (
    plan.COMMAND,
    deploy.COMMAND,
    apply.COMMAND,
    pull.COMMAND,
    snapshot.COMMAND,
    graph.COMMAND,
    schema.COMMAND,
)

HELP = "Pipelines as code: resources of a data pipeline service as files and as graphs."


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    :param arguments: command and options; None for the arguments of this process.
    :return: exit status: 0 done, 1 rejected or failed, 2 invalid command line, 3 differences found.
    """
    options = _parser().parse_args(arguments)
    return run_command(options.command, options)


def run_command(command: Command, options: argparse.Namespace) -> int:
    """
    Run a command and report an error in one line.

    :param command: the command.
    :param options: parsed options.
    :return: exit status.
    """
    from airflow_provider_datapipe.api.errors import DatapipeError
    from airflow_provider_datapipe.pipelines.errors import PipelineError
    from airflow_provider_datapipe.pipelines.plan import printable

    make_writable()
    try:
        status = command.run(options)
        # Flush here to detect a closed pipe.
        sys.stdout.flush()
    except (CommandError, PipelineError, DatapipeError) as error:
        print(printable(f"datapipe {command.name}: {error}"), file=sys.stderr)
        return INVALID_ARGUMENTS if isinstance(error, InvalidArgumentsError) else FAILED
    except KeyboardInterrupt:
        print(f"datapipe {command.name}: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, closed it.
        discard_broken_output()
        return FAILED
    except OSError as error:
        what = "the output can't be written" if error.filename is None else f"{error.filename} can't be used"
        print(printable(f"datapipe {command.name}: {what}: {error.strerror or error}."), file=sys.stderr)
        discard_broken_output()
        return FAILED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="datapipe", description=HELP)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for option in command.options:
            subparser.add_argument(*option.flags, **option.settings)
        subparser.set_defaults(command=command)
    return parser


def script() -> None:
    """Run the command of this process and exit."""
    sys.exit(main())
