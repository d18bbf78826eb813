"""Local service for tests, in a temporary home and its own process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx
import yaml

from datapipe_local.testing.client import ControlPlane
from tests.support.processes import Program, ReservedPort, Workspace, wait_for

Json = dict[str, Any]

_READY = "datapipe-local is ready at "
_STOP_LIMIT = 10.0


class LocalService:
    """
    Running service, for a ``with`` block. The end of this process stops the service and removes its folder.

    :param seed: The seed as data of the YAML file, or the path of the file.
    :param environment: Variables for ``init`` and ``serve``, over those of this process.
    :param workspace: A shared workspace. By default, the service has a temporary one.
    :param control: Enable the control plane, which the methods from :meth:`journal_runs` on require.
    :param schedules: Run schedules. They are off by default, so that tests do not depend on the time of day.
    :param ready_within: Seconds that ``init`` and ``serve`` may take.
    """

    #: Start by a fork instead of a new interpreter. Set in tests. The demo and the measurements start like users.
    forked: ClassVar[bool] = False

    folder: Path
    home: Path
    log_file: Path

    def __init__(
        self,
        seed: Mapping[str, Any] | Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        workspace: Workspace | None = None,
        control: bool = False,
        schedules: bool = False,
        ready_within: float = 30.0,
    ) -> None:
        self.api_key = f"test-{secrets.token_hex(16)}"
        self._seed = seed
        # Pass the key in the environment, because all users of the machine can read command lines.
        self._environment = {**os.environ, **(environment or {}), "DATAPIPE_LOCAL_API_KEY": self.api_key}
        self._shared = workspace
        self._options = [*(["--control"] if control else []), *([] if schedules else ["--no-schedules"])]
        self._ready_within = ready_within
        self._service: Program | None = None

    def __enter__(self) -> Self:
        self._workspace = self._shared or Workspace("datapipe-local-")
        self._port = ReservedPort()
        self.folder = self._workspace.path
        self.home = self.folder / "home"
        self.log_file = self._workspace.log_of("service")
        try:
            self.init()
            self.start()
        except BaseException:  # including KeyboardInterrupt
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def base_url(self) -> str:
        """Return the address of the service, which stays the same after :meth:`restart`."""
        return f"http://127.0.0.1:{self._port.number}"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with the API key."""
        return {"x-api-key": self.api_key}

    @property
    def warehouse(self) -> Path:
        """Return the path of the DuckDB file. The running service has it locked."""
        return self.home / "warehouse.duckdb"

    @property
    def pid(self) -> int:
        """Return the process ID of the service."""
        return self._program.pid

    @property
    def log(self) -> str:
        """Return the output of ``init`` and ``serve`` so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def init(self) -> None:
        """Create the home and apply the seed."""
        options: list[str] = []
        if self._seed is not None:
            options = ["--seed", str(self._seed if isinstance(self._seed, Path) else self._written(self._seed))]
        self._run("init", *options).wait(self._ready_within)

    def start(self) -> None:
        """Start the service and wait until it is ready, always on the same port."""
        begin = self.log_file.stat().st_size
        self._service = self._run("serve", "--port", str(self._port.number), *self._options)

        def ready() -> bool:
            return _READY in self.log_file.read_bytes()[begin:].decode(errors="replace")

        wait_for("datapipe-local is ready", ready, limit=self._ready_within, interval=0.01, watch=[self._service])

    def stop(self) -> int:
        """Stop the service with SIGTERM, and return its exit status."""
        return self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the service with SIGKILL."""
        self._signal(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the service unless it has ended, and start it again at the same address."""
        self.stop()
        self.start()

    def client(self) -> httpx.Client:
        """Return an HTTP client with the API key. It uses no proxy of the environment."""
        return httpx.Client(base_url=self.base_url, headers=self.headers, timeout=60, trust_env=False)

    def request(self, method: str, path: str, **options: Any) -> Any:
        """
        Send a request, and return the JSON of the response; None for an empty response.

        :raises httpx.HTTPStatusError: the service refuses the request.
        """
        with self.client() as client:
            answer = client.request(method, path, **options).raise_for_status()
        return answer.json() if answer.content else None

    def connection(self, **extra: Any) -> str:
        """Return an Airflow connection to the service as JSON, for an environment variable."""
        fields = {"conn_type": "datapipe", "host": self.base_url, "password": self.api_key}
        return json.dumps({**fields, "extra": extra})

    def journal_runs(self, resource_id: str | None = None, *, after: int = 0) -> list[Json]:
        """Return the runs in the journal, oldest first: all, or those of one resource."""
        return self._control.journal("runs", after=after, resource_id=resource_id)

    def journal_requests(self, path: str | None = None, *, after: int = 0) -> list[Json]:
        """Return the requests in the journal, oldest first: all, or those whose path matches a pattern."""
        return self._control.journal("requests", after=after, path=path)

    def faults(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Replace the injected faults."""
        self._control.faults(rules)

    def runs(self, behaviour: Mapping[str, Any]) -> None:
        """Replace the behavior of runs. Omitted settings are those of the seed."""
        self._control.runs(behaviour)

    def reset(self) -> None:
        """Reset the service to its seed: runs, rows, journal, faults."""
        self._control.reset()

    @cached_property
    def _control(self) -> ControlPlane:
        return ControlPlane(self.base_url, self.api_key)

    @property
    def _program(self) -> Program:
        assert self._service is not None, "the service was not started"
        return self._service

    def _written(self, seed: Mapping[str, Any]) -> Path:
        file = self.folder / "seed.yaml"
        file.write_text(yaml.safe_dump(dict(seed), sort_keys=False), encoding="utf-8")
        return file

    def _run(self, command: str, *options: str) -> Program:
        arguments = [command, "--home", str(self.home), *options]
        if not self.forked:
            arguments = [sys.executable, "-m", "datapipe_local", *arguments]
        return self._workspace.start("service", arguments, env=self._environment, forked=self.forked)

    def _signal(self, number: signal.Signals) -> int:
        self._program.send(number)
        return self._program.end(_STOP_LIMIT)

    def _end(self) -> None:
        try:
            if self._service is not None:
                self.stop()
        finally:
            if "_control" in self.__dict__:
                self._control.close()
            if self._shared is None:
                self._workspace.close()
            self._port.release()
