"""Tests that lists in the docs are complete: errors, exit statuses, outcomes, tests of failures, and pictures."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from airflow_provider_datapipe.cli import command
from airflow_provider_datapipe.get_provider_info import CONNECTION_FIELDS
from airflow_provider_datapipe.runs import outcome
from datapipe_local.cli import status
from tests.support.airflow_versions import older_than
from tests.support.documents import ROOT, pages

DOCS = ROOT / "docs"
SCREENSHOT_WIDTH = 1280
#: Limit in bytes, because a page loads several screenshots.
LARGEST_SCREENSHOT = 120_000
SHORTEST_DESCRIPTION = 30


Generator = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    """Return a function that imports a generator of the docs. They load all modules, some for the newest Airflow."""
    if older_than("3.3"):
        pytest.skip("the docs are built with Airflow 3.3 or later")
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module
    sys.path.remove(str(DOCS))


def test_each_error_class_has_a_cause_and_a_cure(generator: Generator) -> None:
    there = generator("generate_messages").errors()
    reported = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\|$", pages()["docs/errors.md"], re.MULTILINE)
    names = [name for name, *_ in reported]
    assert len(names) == len(set(names))
    from_airflow = {"AirflowTaskTimeout", "AirflowSensorTimeout", "AirflowSkipException", "AirflowFailException"}
    assert set(names) - from_airflow == there.keys()
    # Only base classes, which are never raised, have no cure.
    without_cure = {name for name, _, cure in reported if not cure}
    assert without_cure == {name for name, cause, _ in reported if cause.startswith("Base class of")}


def test_internal_errors_exist_and_are_no_run_errors(generator: Generator) -> None:
    messages = generator("generate_messages")
    source = "\n".join(file.read_text() for file in (ROOT / "src/airflow_provider_datapipe").rglob("*.py"))
    assert [name for name in messages.INTERNAL if f"class {name}(" not in source] == []
    assert [name for name in messages.INTERNAL if name.startswith("Run")] == []


def test_generator_finds_the_messages_in_the_code(generator: Generator) -> None:
    module = generator("generate_messages")
    messages = module.messages()
    assert "There is no API key: set it as the connection's password." in messages["ConfigurationError"]
    (canceled,) = messages["RunCanceledError"]
    assert canceled == "…: the run was canceled in the service….…"
    local = module.messages_of_local_service()
    assert all(local[name] for name in module.OF_LOCAL_SERVICE)
    assert "Port … of … is in use: choose another --port, or 0 for a free one." in local["SetupError"]


def test_exit_statuses_are_documented() -> None:
    table = pages()["docs/errors.md"].partition("## Exit statuses")[2].partition("\n## ")[0]
    provider, local = table.split("| `datapipe-local` |")
    reported = [set(map(int, re.findall(r"\| (\d+) \|", part))) for part in (provider, f"|{local}")]
    interrupted = 130
    assert reported[0] == {command.DONE, command.FAILED, command.INVALID_ARGUMENTS, command.DIFFERS, interrupted}
    refused, misspelt = 1, 2
    of_status = {status.RUNNING, status.NOT_RUNNING, status.NOT_ANSWERING}
    assert reported[1] == {refused, misspelt, *of_status, interrupted}


def test_connection_fields_are_documented() -> None:
    page = pages()["docs/connection.md"]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) ?\|", page, re.MULTILINE))
    assert rows.keys() == CONNECTION_FIELDS.keys()
    for name, reported in rows.items():
        default = CONNECTION_FIELDS[name]["schema"].get("default")
        assert reported == {None: reported if reported in ("none", "") else "none", False: "false"}.get(
            default, str(default)
        ), name


def test_statuses_are_documented_with_their_outcomes() -> None:
    table = pages()["docs/runs.md"].partition("## Outcomes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| `(\w+)` \|", table, re.MULTILINE)
    alone = [(words, meaning) for words, meaning in rows if "with failed rows" not in words]
    reported = {word: meaning for words, meaning in alone for word in re.findall(r"`([A-Z_]+)`", words)}
    # Another run follows a slice.
    assert reported == {**outcome._KNOWN, "CHUNK_COMPLETED": "running"}
    assert {meaning for _, meaning in rows} == {*outcome.Outcome} - {"skipped"}


def test_each_failure_has_tests() -> None:
    tests: dict[str, list[str]] = yaml.safe_load((ROOT / "tests/contract/failures.yaml").read_text())
    rows = re.findall(r"^\| (.*?) \|", pages()["docs/failures.md"], re.MULTILINE)
    assert [row for row in rows if row not in ("Failure", "Event in the service", "Event")] == list(tests)
    for row, cited in tests.items():
        assert cited, row
        for path, _, name in (test.partition("::") for test in cited):
            text = (ROOT / path).read_text()
            assert re.search(rf"^(async )?def {name}\(|^{name} = ", text, re.MULTILINE), (row, path, name)


def test_pictures_are_generated_and_load_nothing(generator: Generator) -> None:
    pictures = generator("pictures")
    drawn = set(pictures.FOLDER.glob("*.svg"))
    assert {file.name for file in pictures.sources()} == {file.name for file in drawn}
    for file in drawn:
        text = file.read_text()
        assert re.findall(r'(?:href|src)="[^#"]|@import|url\((?!#)|<script', text) == []


def test_screenshots_are_used_described_and_small() -> None:
    files = {file.name: file.read_bytes() for file in (DOCS / "pictures").glob("*.png")}
    used = re.findall(r"^!\[([^\]]*)\]\(pictures/(\w+\.png)\)$", "\n".join(pages().values()), re.MULTILINE)
    assert sorted(name for _, name in used) == sorted(files)
    for text, name in used:
        # In a PNG file, the width follows the signature, and the length and type of the first chunk.
        assert int.from_bytes(files[name][16:20]) == SCREENSHOT_WIDTH, name
        assert len(files[name]) < LARGEST_SCREENSHOT, name
        assert len(text) >= SHORTEST_DESCRIPTION, name


def test_names_in_docstrings_are_resolved(generator: Generator) -> None:
    references = generator("references")
    module = "airflow_provider_datapipe.operators.elt_syncs"
    for name, means, may_stay in (
        ("Context", "airflow.sdk.Context", True),
        ("timedelta", "datetime.timedelta", True),
        ("SyncResult", "airflow_provider_datapipe.runs.elt_sync.SyncResult", True),
        # A class of this project, which must be documented.
        ("DatapipeRunOperator", "airflow_provider_datapipe.operators.base.DatapipeRunOperator", False),
    ):
        assert references.full_name(name, module) == means
        assert references.is_there(means)
        assert references.may_stay_text(means) == may_stay
    assert not references.is_there(references.full_name("Nobody", module))
    assert not references.is_there("airflow_provider_datapipe.runs.nothing")
    # All undocumented names exist.
    assert [name for name in references.NOT_DOCUMENTED if not references.is_there(name)] == []


def test_reference_contains_the_public_classes(generator: Generator) -> None:
    reference = generator("generate_reference")
    text = "".join(map(reference.text, reference.PAGES.values()))
    assert [name for name in reference.INTERNAL if not reference.is_module(name)] == []
    for name in (
        "operators.elt_syncs.EltSyncRunOperator",
        "sensors.run.EltStreamRunSensor",
        "triggers.events.EltStreamRunEventTrigger",
        "hooks.datapipe.DatapipeHook",
        "task_groups.DatapipeTaskGroup",
        "links.DatapipeLink",
        "retries.DatapipeRetryPolicy",
        "runs.models.RunResult",
    ):
        assert f":: airflow_provider_datapipe.{name}\n" in text
    assert "hooks.connection." not in text


def test_reference_contains_all_commands_and_options(generator: Generator) -> None:
    text = generator("generate_cli").page()
    for option in ("--delete-orphans", "--check", "--memory-limit SIZE", "--table-format {parquet,csv}"):
        assert f"``{option}``" in text
    for name in ("datapipe plan", "datapipe schema", "datapipe-local serve", "datapipe-local export"):
        assert f"\n{name}\n~" in text
    assert "%(" not in text
    assert "Exit status: 0 no differences, 3 differences" in text


#: Tests of the files that pages include, by the start of their paths.
INCLUDED = {
    "docs/migration/": "tests/contract/test_docs_pages.py",
    "example_dags/flights_follow_up.py": "tests/system/test_examples.py",
    "example_dags/shop/": "tests/system/test_example_dags.py",
}


def included() -> list[str]:
    found = [
        (ROOT / page).parent.joinpath(name).resolve()
        for page, text in pages().items()
        for name in re.findall(r"^```\{literalinclude\} (\S+)$", text, re.MULTILINE)
    ]
    return [file.relative_to(ROOT.resolve()).as_posix() for file in found]


@pytest.mark.parametrize("file", included())
def test_included_files_have_tests(file: str) -> None:
    (test,) = {test for begin, test in INCLUDED.items() if file.startswith(begin)}
    text = (ROOT / test).read_text()
    path = Path(file)
    assert path.suffix != ".py" or path.stem in text, f"{test} does not run {file}"


def test_pages_repeat_no_included_code() -> None:
    # Code of included files is not repeated in pages.
    files = {(ROOT / file).read_text().strip() for file in included()}
    assert [page for page, text in pages().items() for code in files if code in text] == []


def test_links_have_a_text() -> None:
    # Sphinx would insert a text, but GitHub shows none.
    assert [page for page, text in pages().items() if "[](" in text] == []
