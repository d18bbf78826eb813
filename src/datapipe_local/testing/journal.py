"""Journal of the requests and runs of a service, with assertions that show it when they fail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.testing.client import ControlPlane, Json

_SECONDS_BETWEEN_POLLS = 0.02
_MOST_SHOWN = 30


class Journal:
    """
    Journal of one test.

    :param control: The control plane.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def runs(self, resource_id: str | None = None, **fields: Any) -> list[Json]:
        """
        Return the runs, oldest first. The control plane documentation describes their fields.

        :param resource_id: Return only runs of this stream, transform, orchestration or reverse ETL sync.
        :param fields: Return only runs with these field values, as in ``trigger="request"``.
        :raises LookupError: no resource has or had this ID, so that an empty result would mean nothing.
        """
        found = self._control.journal("runs", resource_id=resource_id)
        if not found and resource_id is not None and not self._control.knows(resource_id):
            raise LookupError(
                f"No resource has the ID {resource_id!r}: give the ID of a stream, transform, orchestration or sync."
            )
        return _with(fields, found)

    def requests(self, path: str | None = None, **fields: Any) -> list[Json]:
        """
        Return the requests, oldest first.

        :param path: Return only requests whose path matches this pattern; ``*`` matches one segment, ``**`` any rest.
        :param fields: Return only requests with these field values, as in ``method="POST"``.
        :raises RefusedError: the pattern matches no path of the interface.
        """
        return _with(fields, self._control.journal("requests", path=path))

    def assert_runs(self, resource_id: str | None = None, count: int = 1, **fields: Any) -> list[Json]:
        """
        Assert that there were exactly ``count`` runs, whatever their outcome, and return them.

        :param resource_id: As for :meth:`runs`.
        :param count: The expected number of runs.
        :param fields: As for :meth:`runs`.
        """
        __tracebackhide__ = True
        found = self.runs(resource_id, **fields)
        if len(found) != count:
            raise AssertionError(self._about(f"{_number(count, 'run')}{_of(resource_id, fields)}", len(found)))
        return found

    def assert_one_run(self, resource_id: str | None = None, **fields: Any) -> Json:
        """Assert that there was exactly one run, and return it. Parameters as for :meth:`runs`."""
        __tracebackhide__ = True
        return self.assert_runs(resource_id, 1, **fields)[0]

    def assert_requests(self, path: str | None = None, count: int = 1, **fields: Any) -> list[Json]:
        """
        Assert that there were exactly ``count`` requests, and return them.

        :param path: As for :meth:`requests`.
        :param count: The expected number of requests.
        :param fields: As for :meth:`requests`.
        """
        __tracebackhide__ = True
        found = self.requests(path, **fields)
        if len(found) != count:
            raise AssertionError(self._about(f"{_number(count, 'request')}{_of(path, fields)}", len(found)))
        return found

    def wait_for_runs(
        self, resource_id: str | None = None, count: int = 1, *, timeout: float = 30, **fields: Any
    ) -> list[Json]:
        """
        Wait until at least ``count`` runs have ended, and return the ended runs.

        :param resource_id: As for :meth:`runs`.
        :param count: The expected number of runs.
        :param timeout: The largest waiting time, in seconds.
        :param fields: As for :meth:`runs`.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + timeout
        while True:
            ended = [run for run in self.runs(resource_id, **fields) if run["finished_at"]]
            if len(ended) >= count:
                return ended
            if time.monotonic() > deadline:
                subject = f"{_number(count, 'run')}{_of(resource_id, fields)} to end within {timeout:g} s"
                raise AssertionError(self._about(subject, len(ended)))
            time.sleep(_SECONDS_BETWEEN_POLLS)

    def clear(self) -> None:
        """Delete all entries."""
        self._control.request("DELETE", "journal")

    def __str__(self) -> str:
        return "\n".join(
            [
                *_listed("Runs", self.runs(), _run),
                *_listed("Requests", [one for one in self.requests() if one["method"] != "GET"], _request),
            ]
        )

    def _about(self, expected: str, found: int) -> str:
        return f"Expected {expected}, and there {'was' if found == 1 else 'were'} {found or 'none'}.\n{self}"


def _with(fields: dict[str, Any], entries: list[Json]) -> list[Json]:
    for name in fields:
        if entries and name not in entries[0]:
            raise TypeError(f"no entry of the journal has {name!r}: there are {', '.join(entries[0])}")
    return [entry for entry in entries if all(entry[name] == value for name, value in fields.items())]


def _number(count: int, noun: str) -> str:
    return f"exactly {count} {noun}" if count == 1 else f"{count} {noun}s"


def _of(subject: str | None, fields: dict[str, Any]) -> str:
    wanted = "".join(f", {name}={value!r}" for name, value in fields.items())
    return f"{'' if subject is None else f' of {subject!r}'}{wanted}"


def _listed(title: str, entries: list[Json], line: Callable[[Json], str]) -> list[str]:
    if not entries:
        return [f"{title}: none."]
    # Show the last entries: they explain a failure.
    left_out = max(0, len(entries) - _MOST_SHOWN)
    more = [f"  ({left_out} before these)"] if left_out else []
    return [f"{title}:", *more, *(f"  {line(entry)}" for entry in entries[left_out:])]


def _run(run: Json) -> str:
    by = run["trigger"] if run["request"] is None else f"{run['trigger']} {run['request']}"
    ended = f", ended {run['finished_at']}" if run["finished_at"] else ""
    return f"{run['kind']} {run['resource_id']}: {run['status']}, by {by}, requested {run['requested_at']}{ended}"


def _request(request: Json) -> str:
    answer = "no answer" if request["status"] is None else request["status"]
    fault = "" if request["fault"] is None else f" (fault: {request['fault']['effect']})"
    query = f"?{request['query']}" if request["query"] else ""
    return f"{request['seq']}: {request['method']} {request['path']}{query}: {answer}{fault}"
