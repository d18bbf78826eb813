"""Smallest benchmarks with real processes. The tests check counts, but no times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import generated as generated_dags
from tests.benchmarks import local_loading
from tests.benchmarks.adapters.ours import StreamsOfSyncs
from tests.benchmarks.by_history import measure_by_history
from tests.benchmarks.imports import OURS, measure_imports
from tests.benchmarks.results import Results


def test_benchmark_of_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    # Time limits for a busy machine.
    limits = ["--window", "0.5", "--start-limit", "120", "--finish-limit", "120"]
    assert command.main(["waits", "--count", "20", "--only", StreamsOfSyncs.name, *limits]) == 0
    results = Results.read(tmp_path / "main.jsonl")
    assert results.failures == []
    (waited,) = results.waited
    assert (waited.count, waited.events, waited.bad, waited.said) == (20, 20, 0, [])
    assert 0 < waited.started <= 20
    assert waited.not_found == 0
    assert waited.requests_in_all > 0
    assert waited.lag is not None
    assert "apache-airflow" in results.machines[0].versions


def test_benchmark_of_run_histories() -> None:
    alone, shared = measure_by_history(3.0, 4, ways=((1.0, False), (None, True)))
    for followed in (alone, shared):
        assert (len(followed.delays), followed.bad, followed.said) == (4, 0, [])
        assert followed.requests >= 1
        assert min(followed.delays) >= 0
    assert (alone.interval, shared.interval, shared.is_shared) == (1.0, None, True)


def test_benchmark_of_imports() -> None:
    (imported,) = measure_imports([OURS.name], 1)
    assert imported.modules >= imported.others >= len(OURS.modules)


def test_benchmark_of_loading(capsys: pytest.CaptureFixture[str]) -> None:
    # The command fails if the loader and DuckDB load different rows.
    assert local_loading.main(["--runs", "1", "--no-large"]) == 0
    assert re.fullmatch(r"336,776 flights: \d+ ms, DuckDB itself \d+ ms, ratio [\d.]+\n", capsys.readouterr().out)


def test_memory_of_a_load_is_limited(tmp_path: Path) -> None:
    size, before, most = local_loading.memory(tmp_path, limit_mb=100, size_mb=300)
    # Without a limit, the memory would exceed the size of the file.
    assert most - before < size / 2


def test_generated_and_handwritten_dag_have_equal_tasks() -> None:
    generated, written = generated_dags.measure(40, 1)
    assert (generated.way, written.way) == ("generated", "written")
    assert len(generated.tasks) == 40
    assert generated.tasks == written.tasks
    assert min(generated.parse, generated.serialize, written.parse, written.serialize) > 0
