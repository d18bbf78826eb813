from __future__ import annotations

import pytest

from airflow_provider_datapipe.api.endpoints import elt_syncs
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError, ServerError, TransportError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.lineage import asking
from airflow_provider_datapipe.lineage.asking import Asker, Budget, EnoughError, budget_of
from tests.support.scripted_server import Reply, ScriptedServer

REFUSED = Reply(404, body=b'{"message": "gone"}')


def asked(asker: Asker, times: int) -> list[type[DatapipeError]]:
    found = []
    for _ in range(times):
        with pytest.raises(DatapipeError) as caught:
            asker.send(elt_syncs.get("x"))
        found.append(caught.type)
    asker.close()
    return found


MISSING, ENOUGH = NotFoundError, EnoughError


@pytest.mark.parametrize(
    ("script", "seconds", "errors", "requests"),
    [
        ([REFUSED], 60, [MISSING] * 16 + [ENOUGH] * 2, 16),
        # A missing resource is no failure. After a failure there are no more requests.
        ([REFUSED, Reply(503, body=b"{}"), REFUSED], 60, [MISSING, ServerError, ENOUGH], 2),
        ([REFUSED], -1, [ENOUGH] * 2, 0),
    ],
    ids=["number of requests", "failure", "time"],
)
def test_requests_for_lineage_are_limited(
    script: list[Reply], seconds: float, errors: list[type[DatapipeError]], requests: int
) -> None:
    with ScriptedServer(script) as server:
        asker = Asker(Settings(server.url, "key"), Budget(seconds))
        assert asked(asker, len(errors)) == errors
        assert len(server.seen) == requests
    assert isinstance(asker.problem, errors[0])


@pytest.mark.parametrize(
    ("reply", "seconds", "error"),
    [(Reply(404, body=b"{}", delay=0.3), 0.2, NotFoundError), (Reply(0), 60, TransportError)],
    ids=["slow responses", "no response"],
)
def test_several_clients_share_a_budget(reply: Reply, seconds: float, error: type[DatapipeError]) -> None:
    with ScriptedServer([reply]) as server:
        settings, budget = Settings(server.url, "key"), Budget(seconds)
        assert asked(Asker(settings, budget), 1) == [error]
        assert asked(Asker(settings, budget), 1) == [EnoughError]
        assert len(server.seen) == 1


def test_assets_share_the_budget_of_the_task_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_budgets", {})
    task = budget_of("a", begins=True)
    assert budget_of("a", begins=False) is task
    assert budget_of("b", begins=False) is not task
    following = budget_of("a", begins=True)
    assert following is not task
    # A process may live on, and be about another event then.
    following.begun -= 11
    assert budget_of("a", begins=False) is not following


def test_a_short_time_out_of_the_connection_stays() -> None:
    assert Asker(Settings("https://h.example", "key", timeout=0.1))._client.settings.timeout == 0.1
    assert Asker(Settings("https://h.example", "key"))._client.settings.timeout == 2
