"""``datapipe schema``: the JSON Schema of workspace files, for editors."""

from __future__ import annotations

import argparse
import sys

from airflow_provider_datapipe.cli.command import DONE, Command


def run(_: argparse.Namespace) -> int:
    """
    Write the schema to the standard output.

    :return: 0.
    """
    from airflow_provider_datapipe.pipelines.workspace.models import schema_text

    sys.stdout.write(schema_text())
    return DONE


COMMAND = Command("schema", "write the JSON Schema of workspace files", (), run)
