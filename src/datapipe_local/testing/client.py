"""The control plane of a service that is running, by HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]

_SECONDS_FOR_AN_ANSWER = 90


class RefusedError(Exception):
    """
    The control plane refused something.

    :param answer: What it answered.
    """

    def __init__(self, answer: httpx.Response) -> None:
        try:
            self.body: Json = answer.json()
        except ValueError:
            self.body = {}
        message = self.body.get("message") or answer.text[:500]
        super().__init__(f"{answer.request.method} {answer.url.path}: {answer.status_code}: {message}")


class ControlPlane:
    """
    Asks it; see the page about it for what can be asked.

    :param base_url: Where the service is.
    :param api_key: Its key.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        # No proxy of the environment stands between a test and this machine.
        self._client = httpx.Client(
            base_url=f"{base_url}/_local",
            headers={"x-api-key": api_key},
            timeout=_SECONDS_FOR_AN_ANSWER,
            # A connection that is kept may be one to a process that was killed since.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def ask(self, method: str, path: str, body: Any = None, /, **query: Any) -> Any:
        """
        Ask something.

        :param method: The HTTP method.
        :param path: The path, below ``/_local/``.
        :param body: What is sent, as JSON.
        :param query: The query; what is ``None`` is left out.
        :return: The answer's JSON, if it has any.
        :raises RefusedError: it is refused.
        """
        wanted = {name: value for name, value in query.items() if value is not None}
        answer = self._client.request(method, f"/{path}", json=body, params=wanted)
        if answer.is_error:
            raise RefusedError(answer)
        return answer.json() if answer.content else None

    def journal(self, kind: str, *, after: int = 0, **query: str | None) -> list[Json]:
        """
        Give the journal, oldest first.

        :param kind: ``runs`` or ``requests``.
        :param after: Only entries whose ``seq`` is higher.
        :param query: ``resource_id`` or ``path``: only what is about it.
        """
        entries: list[Json] = []
        while True:
            page: list[Json] = self.ask("GET", "journal", kind=kind, after=after, **query)["data"]
            if not page:
                return entries
            entries += page
            after = page[-1]["seq"]

    def knows(self, resource_id: str) -> bool:
        """Tell whether anything has this id, or had."""
        known: bool = self.ask("GET", "journal", kind="runs", resource_id=resource_id, limit=1)["known"]
        return known

    def faults(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Have these go wrong, and nothing else."""
        self.ask("PUT", "faults", rules)

    def runs(self, behaviour: Mapping[str, Any]) -> None:
        """Have runs behave so, and as the seed says otherwise."""
        self.ask("PUT", "runs", behaviour)

    def reset(self, *, seed: str = "keep") -> None:
        """Forget all; unless ``drop`` is given, but the seed."""
        self.ask("POST", "reset", {"seed": seed})
