from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.endpoints import elt_syncs
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError, ServerError, TransportError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.lineage import asking
from airflow_provider_datapipe.lineage.asking import Budget, LineageClient, LineageLimitError, budget_of
from tests.support.scripted_server import Reply, ScriptedServer

REFUSED = Reply(404, body=b'{"message": "gone"}')


def error_types(client: LineageClient, times: int) -> list[type[DatapipeError]]:
    found = []
    for _ in range(times):
        with pytest.raises(DatapipeError) as caught:
            client.send(elt_syncs.get("x"))
        found.append(caught.type)
    client.close()
    return found


MISSING, ENOUGH = NotFoundError, LineageLimitError


@pytest.mark.parametrize(
    ("script", "seconds", "errors"),
    [
        ([REFUSED], 60, [MISSING] * 16 + [ENOUGH] * 2),
        # A missing resource does not count as a failure. A failure ends the requests.
        ([REFUSED, Reply(503, body=b"{}"), REFUSED], 60, [MISSING, ServerError, ENOUGH]),
        ([REFUSED], -1, [ENOUGH] * 2),
    ],
    ids=["number of requests", "failure", "time"],
)
def test_requests_for_lineage_are_limited(script: list[Reply], seconds: float, errors: list[type[Exception]]) -> None:
    with ScriptedServer(script) as server:
        client = LineageClient(Settings(server.url, "key"), Budget(seconds))
        assert error_types(client, len(errors)) == errors
        assert len(server.seen) == len(errors) - errors.count(ENOUGH)
    assert isinstance(client.problem, errors[0])


@pytest.mark.parametrize(
    ("reply", "seconds", "error"),
    [(Reply(404, body=b"{}", delay=0.3), 0.2, NotFoundError), (Reply(0), 60, TransportError)],
    ids=["slow responses", "no response"],
)
def test_several_clients_share_a_budget(reply: Reply, seconds: float, error: type[DatapipeError]) -> None:
    with ScriptedServer([reply]) as server:
        settings, budget = Settings(server.url, "key"), Budget(seconds)
        assert error_types(LineageClient(settings, budget), 1) == [error]
        assert error_types(LineageClient(settings, budget), 1) == [LineageLimitError]
        assert len(server.seen) == 1


def test_assets_share_the_budget_of_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_budgets", {})
    task = budget_of("a", begins=True)
    assert budget_of("a", begins=False) is task
    assert budget_of("b", begins=False) is not task
    following = budget_of("a", begins=True)
    assert following is not task
    # After 10 s, the same process may handle another event.
    following.started -= 11
    assert budget_of("a", begins=False) is not following


def test_shorter_timeout_of_the_connection_is_kept() -> None:
    assert LineageClient(Settings("https://h.example", "key", timeout=0.1), Budget())._client.settings.timeout == 0.1
    assert LineageClient(Settings("https://h.example", "key"), Budget())._client.settings.timeout == 2
