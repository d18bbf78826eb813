"""Service that a command connects to, from an Airflow connection or from a URL and an API key."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_datapipe.cli.command import CommandError, InvalidArgumentsError, Option

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.client import Client
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.flows import Flow

T = TypeVar("T")

KEY_VARIABLE = "DATAPIPE_API_KEY"

#: If the standard error is not a terminal, report progress after this number of requests to one endpoint.
_REPORT_EVERY = 500

#: Options of all commands that connect to a service.
OPTIONS = (
    Option.of("--connection", metavar="CONN_ID", help="Airflow connection of the service"),
    Option.of(
        "--base-url",
        metavar="URL",
        help=f"URL of the service, instead of --connection; the API key is read from {KEY_VARIABLE}",
    ),
    Option.of(
        "--api-key-env",
        metavar="NAME",
        default=KEY_VARIABLE,
        help="another environment variable with the API key (other users can see command line arguments)",
    ),
    Option.of("--quiet", action="store_true", help="print only warnings and errors to the standard error"),
)


class Service:
    """
    Connected service.

    :param client: API client.
    :param progress: display that counts the requests.
    """

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        from airflow_provider_datapipe.flows import run_blocking

        return run_blocking(flow, self.send, time.sleep, self.run_concurrently)

    def send(self, request: Request[T]) -> T:
        """Send a request and return the response."""
        self._progress.count_request(request.endpoint.name)
        return self._client.send(request)

    def run_concurrently(self, flows: Sequence[Flow[T]]) -> list[T]:
        """Run flows, concurrently if there are several, and return their results in order."""
        from airflow_provider_datapipe.concurrent_flows import FEW, run_concurrently
        from airflow_provider_datapipe.flows import run_each

        if len(flows) <= FEW:
            return run_each(flows, self.run)
        return run_concurrently(
            self._client.settings, flows, lambda request: self._progress.count_request(request.endpoint.name)
        )


@contextmanager
def service_of(options: argparse.Namespace) -> Iterator[Service]:
    """
    Connect to the service of the options and report progress on the standard error.

    :param options: parsed options, with :data:`OPTIONS`.
    :raises InvalidArgumentsError: if the options name no service or two.
    :raises DatapipeError: if the connection settings are not usable.
    """
    if (options.connection is None) == (options.base_url is None):
        raise InvalidArgumentsError("set either --connection or --base-url to select the service.")
    progress = Progress(quiet=options.quiet)
    connected = _by_connection(options.connection) if options.base_url is None else _by_url(options)
    with connected as client:
        try:
            yield Service(client, progress)
        finally:
            progress.finish()


@contextmanager
def _by_connection(conn_id: str) -> Iterator[Client]:
    # Without this, Airflow treats the process as a task and does not read connections from its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    with _quiet_airflow():
        from airflow.providers.common.compat.sdk import AirflowException

        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        hook = DatapipeHook(conn_id)
        try:
            client = hook.get_conn()
        except AirflowException as error:
            raise CommandError(f"Airflow has no connection {conn_id}: {error}") from None
    try:
        yield client
    finally:
        hook.close()


@contextmanager
def _quiet_airflow() -> Iterator[None]:
    """Suppress logs and warnings of Airflow 3.1 during its initialization, to keep the command's output readable."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Import now and override its handler below: Airflow replaces warnings.showwarning.
            import airflow.settings  # noqa: F401 - imported for its side effects

            warnings.showwarning = lambda *_, **__: None
            yield
    finally:
        logging.disable(before)


@contextmanager
def _by_url(options: argparse.Namespace) -> Iterator[Client]:
    key = os.environ.get(options.api_key_env, "").strip()
    if not key:
        raise CommandError(f"the environment variable {options.api_key_env} does not contain an API key.")
    from airflow_provider_datapipe.api.client import Client
    from airflow_provider_datapipe.api.settings import Settings

    with Client(Settings(base_url=options.base_url, api_key=key)) as client:
        yield client


class Progress:
    """
    Progress display on the standard error: one updated line on a terminal, otherwise a line per endpoint.

    :param quiet: True to disable the display.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._one_line = sys.stderr.isatty()
        self._counts: dict[str, int] = {}
        self._last = ""

    def count_request(self, name: str) -> None:
        """Count a request."""
        if self._last and name != self._last and not self._one_line:
            self._report_line()
        self._last = name
        self._counts[name] = self._counts.get(name, 0) + 1
        if not self._one_line and self._counts[name] % _REPORT_EVERY == 0:
            self._report_line()
        if self._one_line and not self._quiet:
            print(f"\r\x1b[K{self._line}", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Report the last count."""
        if self._last:
            self._report_line()

    def _report_line(self) -> None:
        if not self._quiet:
            print(f"\r\x1b[K{self._line}" if self._one_line else self._line, file=sys.stderr, flush=True)

    @property
    def _line(self) -> str:
        count = self._counts[self._last]
        return f"{self._last}: {count} request{'s' if count != 1 else ''}"
