"""Settings of a deferral: the seconds in the worker before it, and the minimum time until its trigger event."""

from __future__ import annotations

import time
from math import isfinite
from typing import Any

from airflow import __version__ as airflow_version

# Only the import path depends on the version of Airflow. Importing common.compat would load three more modules.
try:
    from airflow.sdk.configuration import conf
except ModuleNotFoundError:  # before Airflow 3.2
    from airflow.configuration import conf

#: Log line of a task that defers: without a triggerer it would stay deferred without an explanation.
DEFERRED = "Deferred to the triggerer. If no further line follows, check that a triggerer is running."
#: Section of the Airflow configuration.
SECTION = "datapipe"
#: Executors that never read the stale result of a task's first pass: they count a task as running when they send it.
#: Measured with CeleryExecutor only. The fix of the state ``scheduled`` (apache/airflow#66374) is in 3.2.2.
_EXECUTORS_WITHOUT_RACE = frozenset({"CeleryExecutor"})
_FIRST_VERSION_WITHOUT_RACE = (3, 2, 2)
#: Default of ``[workers] min_heartbeat_interval``, and seconds for the scheduler's loop after it.
_HEARTBEAT_INTERVAL = 5.0
_SCHEDULER_LOOP = 3.0


def defer_after_setting(argument: float | None, connection: float | None) -> float | None:
    """
    Return the seconds to wait in the worker before a deferral, None to decide by the durations of earlier runs.

    The argument of the task takes precedence over the connection, and this over ``[datapipe] defer_after``.

    :param argument: value of the task's argument ``defer_after``.
    :param connection: value of the connection's extra field ``defer_after``.
    :raises ValueError: if the configuration has no such number.
    """
    for value in (argument, connection):
        if value is not None:
            return value
    return _configured("defer_after")


def hold_arguments(task: Any) -> dict[str, float]:
    """
    Return the trigger arguments for a deferral that begins now: its time, and its minimum time if it has one.

    A scheduler that reads the result of a task's first pass only after the trigger event fails the task
    (apache/airflow#67287, #71580, #72716). The supervisor reports the end of the first pass up to
    ``[workers] min_heartbeat_interval`` seconds late.

    :param task: the operator or sensor.
    :return: ``deferred_at`` in seconds since the epoch and ``minimum_deferral_time`` in seconds; empty for no limit.
    :raises ValueError: if ``[datapipe] minimum_deferral_time`` is not a number of seconds.
    """
    seconds = minimum_deferral_time(task)
    return {"deferred_at": time.time(), "minimum_deferral_time": seconds} if seconds else {}


def minimum_deferral_time(task: Any) -> float | None:
    """
    Return the minimum time from a deferral to its trigger event in seconds, or None. See :func:`hold_arguments`.

    :param task: the operator or sensor.
    :raises ValueError: if ``[datapipe] minimum_deferral_time`` is not a number of seconds.
    """
    configured = _configured("minimum_deferral_time")
    if configured is None and not any(_has_race(executor, airflow_version) for executor in executors_of(task)):
        return None
    if configured is not None:
        return configured
    interval: float = conf.getfloat("workers", "min_heartbeat_interval", fallback=_HEARTBEAT_INTERVAL)
    return interval + _SCHEDULER_LOOP


def executors_of(task: Any) -> set[str]:
    """
    Return the class names of the executors that can run a task.

    There are several if teams have their own executors (``CeleryExecutor;team1=LocalExecutor``), because the task does
    not know its team.

    :param task: the operator or sensor: its ``executor`` is a class, an alias, or empty for the default, which is the
        first of ``[core] executor``.
    """
    return {_executor_of(task, team) for team in conf.get("core", "executor", fallback="").split(";")}


def _executor_of(task: Any, team: str) -> str:
    # A team's list begins with the name of the team.
    configured = [entry.strip() for entry in team.rpartition("=")[2].split(",")]
    chosen = getattr(task, "executor", None) or configured[0]
    aliases = dict(entry.split(":", 1) for entry in configured if ":" in entry)
    return str(aliases.get(chosen, chosen)).rpartition(":")[2].rpartition(".")[2]


def _has_race(executor: str, version: str) -> bool:
    parts = tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
    return executor not in _EXECUTORS_WITHOUT_RACE or parts < _FIRST_VERSION_WITHOUT_RACE


def _configured(option: str) -> float | None:
    given = (conf.get(SECTION, option, fallback="") or "").strip()
    if not given:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not (seconds >= 0 and isfinite(seconds)):
        raise ValueError(f"[{SECTION}] {option} must be a number of seconds, 0 or more, not {given!r}.")
    return seconds
