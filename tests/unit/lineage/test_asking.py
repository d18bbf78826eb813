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


def test_no_more_is_asked_than_is_bearable() -> None:
    with ScriptedServer([REFUSED] * 16) as server:
        asker = Asker(Settings(server.url, "key"), Budget(60))
        assert asked(asker, 18) == [NotFoundError] * 16 + [EnoughError] * 2
        assert len(server.seen) == 16
    assert isinstance(asker.problem, NotFoundError)


def test_missing_is_no_failure_and_failures_are_not_repeated() -> None:
    with ScriptedServer([REFUSED, Reply(503, body=b"{}"), REFUSED]) as server:
        assert asked(Asker(Settings(server.url, "key"), Budget(60)), 3) == [NotFoundError, ServerError, EnoughError]
        assert len(server.seen) == 2


def test_patience_ends() -> None:
    with ScriptedServer([REFUSED]) as server:
        assert asked(Asker(Settings(server.url, "key"), Budget(-1)), 2) == [EnoughError] * 2
        assert server.seen == []


def test_slow_answers_use_up_what_several_have_together() -> None:
    with ScriptedServer([Reply(404, body=b"{}", delay=0.3)]) as server:
        settings, budget = Settings(server.url, "key"), Budget(0.2)
        assert asked(Asker(settings, budget), 1) == [NotFoundError]
        assert asked(Asker(settings, budget), 1) == [EnoughError]
        assert len(server.seen) == 1


def test_a_service_that_does_not_answer_is_given_up_by_all() -> None:
    with ScriptedServer([Reply(0)]) as server:
        settings, budget = Settings(server.url, "key"), Budget(60)
        assert asked(Asker(settings, budget), 1) == [TransportError]
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
