"""What a test is given: a service, and all that it can have happen to it."""

from __future__ import annotations

import json
from functools import cached_property
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

#: What the provider's operators take if they are given none.
_CONNECTION = "datapipe_default"
# Between two looks at a run: what runs here takes milliseconds.
_POLL_INTERVAL = 0.1


class DatapipeLocal:
    """
    A service for one test, for a ``with`` block: empty until it is seeded.

    :param process: What runs it.
    :param folder: What paths in seeds are relative to.
    :param setenv: Sets a variable for the time of the test.
    """

    def __init__(self, process: ServiceProcess, *, folder: Path, setenv: Callable[[str, str], None]) -> None:
        self._process = process
        self._folder = folder
        self._setenv = setenv

    def __enter__(self) -> Self:
        if not self._process.is_alive:
            # A test before this one has killed it.
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
        """Where it answers."""
        return self._process.base_url

    @property
    def api_key(self) -> str:
        """What clients have to send."""
        return self._process.api_key

    @property
    def log(self) -> str:
        """What it has logged, also in tests before this one."""
        return self._process.log()

    @cached_property
    def api(self) -> httpx.Client:
        """A client of the interface itself."""
        import httpx

        headers = {"x-api-key": self.api_key}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=60, trust_env=False)

    def connect(self, connection_id: str = _CONNECTION) -> None:
        """Have an Airflow connection lead here, for this test; ``datapipe_default`` does anyway."""
        connection = {
            "conn_type": "datapipe",
            "host": self.base_url,
            "password": self.api_key,
            "extra": {"poll_interval": _POLL_INTERVAL},
        }
        self._setenv(f"AIRFLOW_CONN_{connection_id.upper()}", json.dumps(connection))

    def seed(self, seed: Mapping[str, Any] | Path | str) -> dict[str, int]:
        """
        Declare what the service is to know, besides what it knows.

        :param seed: A mapping; or a file; or a text of YAML. ``${NAME}`` in the latter is this process's variable.
            Paths are relative to the file, else to the test's.
        :return: How many entries of each kind were created or changed.
        :raises SetupError: something in the file or text is wrong; the message has its line.
        :raises RefusedError: something in the mapping is.
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
        """Have these go wrong, and nothing else."""
        self.control.faults(rules)

    def runs(self, resource_id: str | None = None, **behaviour: Any) -> None:
        """
        Say how runs behave, as in ``runs("orders", outcomes=[{"fail": "The source is away."}])``.

        What was said before of the same resource, or of all, does not hold any more.

        :param resource_id: Whose runs; left out, all.
        :param behaviour: As in the page about the control plane.
        """
        now = {name: value for name, value in self.control.ask("GET", "runs").items() if name != "outcomes_left"}
        resources: dict[str, Any] = now.pop("resources", {})
        if resource_id is None:
            now = behaviour
        else:
            resources = {**resources, resource_id: behaviour}
        self.control.runs({**now, "resources": resources})

    def reset(self) -> None:
        """Have it be empty."""
        self.control.reset(seed="drop")

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """
        Ask the warehouse.

        :param sql: A ``SELECT`` in DuckDB's words, with tables as ``schema.table``.
        """
        found: list[dict[str, Any]] = self.control.ask("POST", "query", {"sql": sql})["data"]
        return found

    def _apply(self, content: Mapping[str, Any], folder: Path) -> dict[str, int]:
        applied: dict[str, int] = self.control.ask("POST", "seed", content, folder=str(folder))["applied"]
        return applied
