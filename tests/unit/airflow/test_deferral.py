"""Deferral settings by executor, version and configuration of Airflow."""

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


LOCAL, CELERY = "LocalExecutor", "CeleryExecutor"
TEAMS = [f"{LOCAL};team1={CELERY}", f"{CELERY};team1={LOCAL}"]


@pytest.mark.parametrize(
    ("configured", "chosen", "expected"),
    [
        (LOCAL, None, {LOCAL}),
        (CELERY, None, {CELERY}),
        (f"{CELERY},{LOCAL}", None, {CELERY}),
        (f"{CELERY}, {LOCAL}", LOCAL, {LOCAL}),
        (f"{LOCAL},my.module.MyExecutor", "my.module.MyExecutor", {"MyExecutor"}),
        (f"{LOCAL},fast:my.module.MyExecutor", "fast", {"MyExecutor"}),
        ("fast:airflow.providers.celery.executors.celery_executor.CeleryExecutor", None, {CELERY}),
        # The team of the task is unknown.
        *((configured, None, {CELERY, LOCAL}) for configured in TEAMS),
    ],
)
def test_executors_of_a_task(
    configured: str, chosen: str | None, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", configured)
    assert executors_of(SimpleNamespace(executor=chosen)) == expected


@pytest.mark.parametrize(
    ("executor", "version", "settings", "seconds"),
    [
        (LOCAL, "3.3.2", {}, 8),
        (LOCAL, "3.3.2", {"WORKERS__MIN_HEARTBEAT_INTERVAL": "20"}, 23),
        *((CELERY, version, {}, None) for version in ("3.2.2", "3.3.0", "3.3.2", "3.4.0rc1", "4.0.0")),
        *((CELERY, version, {}, 8) for version in ("3.1.8", "3.2.0", "3.2.1")),
        *((teams, "3.3.2", {}, 8) for teams in TEAMS),
        # An executor without a measured default.
        ("KubernetesExecutor", "3.3.2", {}, 8),
        (CELERY, "3.3.2", {"DATAPIPE__MINIMUM_DEFERRAL_TIME": "3.5"}, 3.5),
        (LOCAL, "3.3.2", {"DATAPIPE__MINIMUM_DEFERRAL_TIME": "0"}, None),
    ],
)
def test_minimum_deferral_time(
    executor: str, version: str, settings: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__{name}", value)
    held = held_for(monkeypatch, executor, version)
    assert held == (None if seconds is None else pytest.approx(seconds, abs=1))


@pytest.mark.parametrize("wrong", ["soon", "-1", "nan", "inf"])
def test_wrong_setting_names_the_option(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATAPIPE__MINIMUM_DEFERRAL_TIME", wrong)
    with pytest.raises(ValueError, match=r"\[datapipe\] minimum_deferral_time"):
        held_for(monkeypatch, LOCAL)


def test_argument_precedes_connection_and_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a setting, the run history decides.
    assert defer_after_setting(None, None) is None
    monkeypatch.setenv("AIRFLOW__DATAPIPE__DEFER_AFTER", "3")
    assert defer_after_setting(0.0, 2.0) == 0.0
    assert defer_after_setting(None, 2.0) == 2.0
    assert defer_after_setting(None, None) == 3.0
