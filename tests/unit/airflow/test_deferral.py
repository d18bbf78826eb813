"""Settings of a deferral: executor, version and configuration of Airflow."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from airflow_provider_datapipe.operators import deferral
from airflow_provider_datapipe.operators.deferral import defer_after_setting, executors_of, hold_arguments


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the setting of the test run."""
    monkeypatch.delenv("AIRFLOW__DATAPIPE__DEFER_AFTER")


def held_for(monkeypatch: pytest.MonkeyPatch, executor: str, version: str = "3.3.2") -> float | None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setattr(deferral, "airflow_version", version)
    now = time.time()
    arguments = hold_arguments(SimpleNamespace(executor=None))
    assert not arguments or arguments["deferred_at"] == pytest.approx(now, abs=1)
    return arguments.get("minimum_deferral_time")


@pytest.mark.parametrize(
    ("configured", "chosen", "expected"),
    [
        ("LocalExecutor", None, "LocalExecutor"),
        ("CeleryExecutor", None, "CeleryExecutor"),
        ("CeleryExecutor,LocalExecutor", None, "CeleryExecutor"),
        ("CeleryExecutor, LocalExecutor", "LocalExecutor", "LocalExecutor"),
        ("LocalExecutor,my.module.MyExecutor", "my.module.MyExecutor", "MyExecutor"),
        ("LocalExecutor,fast:my.module.MyExecutor", "fast", "MyExecutor"),
        ("fast:airflow.providers.celery.executors.celery_executor.CeleryExecutor", None, "CeleryExecutor"),
    ],
)
def test_executors_of_a_task(
    configured: str, chosen: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", configured)
    assert executors_of(SimpleNamespace(executor=chosen)) == {expected}


@pytest.mark.parametrize("configured", ["LocalExecutor;team1=CeleryExecutor", "CeleryExecutor;team1=LocalExecutor"])
def test_executors_of_a_task_whose_team_is_not_known(configured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", configured)
    assert executors_of(SimpleNamespace(executor=None)) == {"CeleryExecutor", "LocalExecutor"}
    # One of them needs it.
    assert held_for(monkeypatch, configured) == pytest.approx(8, abs=1)


def test_local_executor_needs_a_minimum_deferral_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_for(monkeypatch, "LocalExecutor") == pytest.approx(8, abs=1)


def test_minimum_deferral_time_follows_the_heartbeat_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "20")
    assert held_for(monkeypatch, "LocalExecutor") == pytest.approx(23, abs=1)


@pytest.mark.parametrize("version", ["3.2.2", "3.3.0", "3.3.2", "3.4.0rc1", "4.0.0"])
def test_celery_executor_needs_no_minimum(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_for(monkeypatch, "CeleryExecutor", version) is None


@pytest.mark.parametrize("version", ["3.1.8", "3.2.0", "3.2.1"])
def test_celery_executor_of_older_airflow_needs_it(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_for(monkeypatch, "CeleryExecutor", version) == pytest.approx(8, abs=1)


def test_executor_that_was_not_measured_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_for(monkeypatch, "KubernetesExecutor") == pytest.approx(8, abs=1)


def test_minimum_deferral_time_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__MINIMUM_DEFERRAL_TIME", "3.5")
    assert held_for(monkeypatch, "CeleryExecutor") == pytest.approx(3.5, abs=1)


def test_minimum_deferral_time_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__MINIMUM_DEFERRAL_TIME", "0")
    assert held_for(monkeypatch, "LocalExecutor") is None


@pytest.mark.parametrize("wrong", ["soon", "-1", "nan", "inf"])
def test_wrong_setting_names_the_option(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__MINIMUM_DEFERRAL_TIME", wrong)
    with pytest.raises(ValueError, match=r"\[datapipe\] minimum_deferral_time"):
        held_for(monkeypatch, "LocalExecutor")


def test_argument_precedes_connection_and_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__DEFER_AFTER", "3")
    assert defer_after_setting(0.0, 2.0) == 0.0
    assert defer_after_setting(None, 2.0) == 2.0
    assert defer_after_setting(None, None) == 3.0


def test_history_decides_without_a_setting() -> None:
    assert defer_after_setting(None, None) is None
