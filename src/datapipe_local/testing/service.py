"""Service of a test, and the operations of the test on it."""

from __future__ import annotations

import json
import time
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from datapipe_local.seed.document import Document
from datapipe_local.testing.client import ControlPlane, RefusedError
from datapipe_local.testing.clock import ServiceClock
from datapipe_local.testing.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import httpx

    from datapipe_local.testing.process import ServiceProcess

#: Default connection ID of the provider's operators.
_CONNECTION = "datapipe_default"
#: Longer than a request to a destination.
_SECONDS_FOR_A_RESET = 60.0
# Polling interval in seconds: local runs take milliseconds.
_POLL_INTERVAL = 0.1


class DatapipeLocal:
    """
    Service for one test, for a ``with`` block: empty until it is seeded.

    :param process: The process of the service.
    :param folder: The base folder for relative paths in seeds.
    :param setenv: A function that sets an environment variable for the duration of the test.
    """

    def __init__(self, process: ServiceProcess, *, folder: Path, setenv: Callable[[str, str], None]) -> None:
        self._process = process
        self._folder = folder
        self._setenv = setenv

    def __enter__(self) -> Self:
        if not self._process.is_alive:
            # A previous test has killed the process.
            self._process.start()
        self.control = ControlPlane(self.base_url, self.api_key)
        self.journal = Journal(self.control)
        self.clock = ServiceClock(self.control)
        self.reset()
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.control.close()
        if "api" in self.__dict__:
            self.api.close()

    @property
    def base_url(self) -> str:
        """The URL of the service."""
        return self._process.base_url

    @property
    def api_key(self) -> str:
        """The API key that clients must send."""
        return self._process.api_key

    @property
    def log(self) -> str:
        """The log, including that of previous tests."""
        return self._process.log()

    @cached_property
    def api(self) -> httpx.Client:
        """An HTTP client of the service's interface."""
        import httpx

        headers = {"x-api-key": self.api_key}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=60, trust_env=False)

    def connect(self, connection_id: str = _CONNECTION) -> None:
        """Set an Airflow connection to this service for this test; ``datapipe_default`` is always set."""
        connection = {
            "conn_type": "datapipe",
            "host": self.base_url,
            "password": self.api_key,
            "extra": {"poll_interval": _POLL_INTERVAL},
        }
        self._setenv(f"AIRFLOW_CONN_{connection_id.upper()}", json.dumps(connection))

    def seed(self, seed: Mapping[str, Any] | Path | str) -> dict[str, int]:
        """
        Add resources and settings to the service.

        :param seed: A mapping, a file, or YAML text. ``${NAME}`` in a file or text is a variable of this process. Paths
            are relative to the file, otherwise to the test.
        :return: The number of created or changed entries by kind.
        :raises SetupError: the file or text is invalid; the message has the line.
        :raises RefusedError: the mapping is invalid.
        """
        if isinstance(seed, (Path, str)):
            path = self._folder / (seed if isinstance(seed, Path) else "seed of the test")
            document = Document(path, text=seed if isinstance(seed, str) else None)
            try:
                return self._apply(document.content, document.folder)
            except RefusedError as error:
                if "location" not in error.body:
                    raise
                raise document.error(error.body["location"], error.body["reason"]) from None
        return self._apply(seed, self._folder)

    def faults(self, *rules: Mapping[str, Any]) -> None:
        """Replace all fault rules."""
        self.control.faults(rules)

    def runs(self, resource_id: str | None = None, **behaviour: Any) -> None:
        """
        Override the behavior of runs, as in ``runs("orders", outcomes=[{"fail": "The source is away."}])``.

        Earlier overrides of the same resource, or for all resources, no longer apply. Those of other resources stay
        unchanged.

        :param resource_id: The resource; without it, all resources.
        :param behaviour: The fields that the control plane documentation describes.
        """
        if resource_id is None:
            self.control.change_runs({"scheduling_delay": None, "minimum_duration": None, **behaviour})
        else:
            self.control.change_runs({"resources": {resource_id: behaviour}})

    def reset(self) -> None:
        """
        Empty the service.

        A run that waits for a destination delays the reset, at most until its request times out.
        """
        deadline = time.monotonic() + _SECONDS_FOR_A_RESET
        while True:
            try:
                self.control.reset(seed="drop")
            except RefusedError as error:
                if error.status != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    raise
            else:
                return

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """
        Return the rows of a query over the warehouse.

        :param sql: A ``SELECT`` in DuckDB's dialect, with tables as ``schema.table``.
        """
        found: list[dict[str, Any]] = self.control.request("POST", "query", {"sql": sql})["data"]
        return found

    def _apply(self, content: Mapping[str, Any], folder: Path) -> dict[str, int]:
        applied: dict[str, int] = self.control.request("POST", "seed", content, folder=str(folder))["applied"]
        return applied
