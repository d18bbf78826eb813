"""Options of ``python -m tests.system.latency``."""

from __future__ import annotations

import argparse
import shutil

import pytest

from tests.system.latency.__main__ import durations, executors, missing


def test_executors_and_durations_are_lists_without_duplicates() -> None:
    assert executors("celery,local,celery") == ["celery", "local"]
    assert durations("10,0.5,1,10") == [0.5, 1, 10]


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'kubernetes' is not one of local, celery"):
        executors("local,kubernetes")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1,3601", "1,", "x"])
def test_a_duration_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        durations(text)


def test_each_missing_program_and_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.postgresql.programs", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr("tests.system.latency.__main__.distributions", list)
    local = missing(["local"])
    assert local == [
        "PostgreSQL is missing: apt-get install postgresql",
        "Not installed: asyncpg, psycopg2-binary. make latency installs them into .venv-celery.",
    ]
    celery = missing(["local", "celery"])
    assert celery[:2] == [local[0], "Redis is missing: apt-get install redis-server"]
    assert "apache-airflow-providers-celery, asyncpg, psycopg2-binary, redis." in celery[2]
