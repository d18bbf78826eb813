"""Entry point of ``python -m datapipe_local`` and of the command ``datapipe-local``."""

from __future__ import annotations

import sys

from datapipe_local.cli import program as cli


def main() -> int:
    """
    Run the command line.

    :return: The exit status of :func:`datapipe_local.cli.program.main`, or 1 if a dependency is not installed.
    """
    try:
        return cli.main()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(__package__):
            raise
        print(
            f"datapipe-local: {error.name} is not installed: pip install 'airflow-provider-datapipe[local]'",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
