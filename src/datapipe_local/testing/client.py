"""HTTP client of the control plane of a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]

_SECONDS_FOR_AN_ANSWER = 90


class RefusedError(Exception):
    """
    Refusal by the control plane.

    :param answer: The HTTP response.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        try:
            self.body: Json = answer.json()
        except ValueError:
            self.body = {}
        message = self.body.get("message") or answer.text[:500]
        super().__init__(f"{answer.request.method} {answer.url.path}: {answer.status_code}: {message}")


class ControlPlane:
    """
    Client of the control plane, whose documentation describes the operations.

    :param base_url: The URL of the service.
    :param api_key: The API key of the service.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        # No proxy of the environment: the service is on this machine.
        self._client = httpx.Client(
            base_url=f"{base_url}/_local",
            headers={"x-api-key": api_key},
            timeout=_SECONDS_FOR_AN_ANSWER,
            # A kept connection may belong to a process that has been killed in the meantime.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def request(self, method: str, path: str, body: Any = None, /, **query: Any) -> Any:
        """
        Send a request.

        :param method: The HTTP method.
        :param path: The path, below ``/_local/``.
        :param body: The JSON body.
        :param query: The query parameters; ``None`` values are omitted.
        :return: The JSON of the response, if it has any.
        :raises RefusedError: the control plane refuses the request.
        """
        wanted = {name: value for name, value in query.items() if value is not None}
        answer = self._client.request(method, f"/{path}", json=body, params=wanted)
        if answer.is_error:
            raise RefusedError(answer)
        return answer.json() if answer.content else None

    def journal(self, kind: str, *, after: int = 0, **query: str | None) -> list[Json]:
        """
        Return the journal, oldest first.

        :param kind: ``runs`` or ``requests``.
        :param after: Return only entries with a higher ``seq``.
        :param query: ``resource_id`` or ``path``: return only the entries of this resource or path.
        """
        entries: list[Json] = []
        while True:
            page: list[Json] = self.request("GET", "journal", kind=kind, after=after, **query)["data"]
            if not page:
                return entries
            entries += page
            after = page[-1]["seq"]

    def knows(self, resource_id: str) -> bool:
        """Return True if a resource has this ID, or had it."""
        known: bool = self.request("GET", "journal", kind="runs", resource_id=resource_id, limit=1)["known"]
        return known

    def faults(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Replace all fault rules."""
        self.request("PUT", "faults", rules)

    def runs(self, behaviour: Mapping[str, Any]) -> None:
        """Replace all run overrides; the seed applies to everything else."""
        self.request("PUT", "runs", behaviour)

    def change_runs(self, changes: Mapping[str, Any]) -> None:
        """Change the run overrides of the given resources; those of other resources stay unchanged."""
        self.request("PATCH", "runs", changes)

    def reset(self, *, seed: str = "keep") -> None:
        """Reset the service. Keep its seed unless ``drop`` is given."""
        self.request("POST", "reset", {"seed": seed})
