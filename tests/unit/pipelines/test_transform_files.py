"""Tests of transform files: paths, links, and the round trip of arbitrary transforms."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import AvailableReferences, TransformVersion
from airflow_provider_datapipe.flows import Flow, run_blocking
from airflow_provider_datapipe.pipelines.plan import Action, Report, ReportItem, Result, report_text
from airflow_provider_datapipe.pipelines.transforms.direct_names import named_directly
from airflow_provider_datapipe.pipelines.transforms.files import desired_from_files, parse_files, path_for, read_files
from airflow_provider_datapipe.pipelines.transforms.front_matter import TransformFileError, parse, render
from airflow_provider_datapipe.pipelines.transforms.planning import plan_transforms
from airflow_provider_datapipe.pipelines.transforms.pulling import Pulled, pull_transforms, write_files
from tests.unit.runs.model_service import ModelService, page, transform

T = TypeVar("T")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ODD = [
    *("..", ".", " a ", "a.sql", "CON", "nul.txt", "e\u0301", "\u00e9"),
    *("%", "x" * 300, "é" * 100, "\\", ":", "*", "a\nb"),
]
PART = (TEXT | st.sampled_from(ODD)).filter(lambda part: part.strip() != "" and "/" not in part)
TRANSFORMS = st.fixed_dictionaries(
    {
        "name": PART,
        "folder_path": st.lists(PART, max_size=3).map("/".join),
        "sql_template": TEXT.map(lambda text: f"SELECT 1 {text}"),
        "documentation": st.none() | TEXT,
        "materialization": st.sampled_from(["view", "table"]),
        "status": st.sampled_from(["draft", "published"]),
        "orchestration_workflow_id": st.sampled_from([None, "o1", "o2", "o3", "o4", "gone"]),
        "cron_expression": st.sampled_from([None, "0 4 * * *"]),
        "is_newest": st.booleans(),
    }
)
#: YAML whose aliases stand for very many values.
EXPANDING = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 15))]
ORCHESTRATIONS = [
    Orchestration(id=f"o{n}", name=name) for n, name in enumerate(["none", "Twin", "Twin", " ", "a\n: b"], start=1)
]


class Service:
    """Service with some transforms."""

    def __init__(self, transforms: Sequence[dict[str, Any]]) -> None:
        self._newest = {f"t{n}": each["is_newest"] for n, each in enumerate(transforms)}
        listed = [self._transform(f"t{n}", each) for n, each in enumerate(transforms)]
        self._model = ModelService(
            transforms__list=[page(*listed)],
            transforms__list_=[page(*listed)],
            transforms__available_references=[AvailableReferences(data=())],
            transforms__versions=[lambda request: page(self._version(request.path.split("/")[2]))],
            orchestrations__list=[page(*ORCHESTRATIONS)],
        )

    @staticmethod
    def _transform(transform_id: str, transforms: dict[str, Any]) -> Any:
        fields = {key: value for key, value in transforms.items() if value is not None and key != "is_newest"}
        is_built = transforms["status"] == "published" and transforms["materialization"] == "table"
        return transform(id=transform_id, **fields, materialization_status="completed" if is_built else None)

    def _version(self, transform_id: str) -> TransformVersion:
        published = self._newest[transform_id]
        fields = {"id": "v", "sql_template": "", "parameters": [], "created_at": "2026-01-01T00:00:00.000Z"}
        return TransformVersion.model_validate(fields | {"is_published": published})

    def run(self, flow: Flow[T]) -> T:
        return run_blocking(flow, self._model.send, self._model.sleep)

    def run_concurrently(self, flows: Sequence[Flow[T]]) -> list[T]:
        return [self.run(flow) for flow in flows]


@given(st.lists(TRANSFORMS, max_size=4, unique_by=lambda each: (each["folder_path"], each["name"])))
def test_plan_after_pull_is_empty(transforms: list[dict[str, Any]]) -> None:
    service = Service(transforms)
    pulled = pull_transforms(service, [])
    paths = {f"{each['folder_path'].strip('/')}/{each['name']}".lstrip("/") for each in transforms}
    assert {done.name for done in pulled.report.items if done.result is Result.CREATED} == paths
    assert len({path.casefold() for path in pulled.texts}) == len(transforms)
    for path in pulled.texts:
        assert all(part not in ("", ".", "..") and not part.startswith(".") for part in path.split("/"))
        assert all(len(part.encode()) <= 255 for part in path.split("/"))
        assert not re.search(r'[\x00-\x1f<>:"\\|?*]', path)
    files = parse_files(pulled.texts)
    planned = plan_transforms(service, desired_from_files(files), delete_orphans=True)
    assert {item.action for item in planned.items} <= {Action.NONE}
    # A second pull writes no files.
    assert pull_transforms(service, files).texts == {}


@given(st.fixed_dictionaries({"documentation": TEXT, "name": TEXT}), TEXT)
@example({"documentation": "a\n  b\n\n", "name": " "}, "-- ---\n")
@example({"documentation": "a\n", "name": "a"}, "")
@example({"documentation": "\n a\n-- ---\n---\n...", "name": "#"}, "")
def test_front_matter_round_trip(given: dict[str, str], sql: str) -> None:
    text = render({"documentation": given["documentation"]}) + sql
    file = parse(text, "a.sql")
    assert (file.front.documentation, file.sql) == (given["documentation"], sql)
    assert file.block + file.sql == text


@pytest.mark.parametrize(
    "text", ["NO", "y", "12:30", "0o14", "1e3", "-0o7", ".5e1", "010", "2024-01-01", "~", "0b1", "0_8", "+_1"]
)
def test_text_that_looks_like_another_type_round_trips(text: str) -> None:
    assert parse(render({"documentation": text}), "a.sql").front.documentation == text


def test_accepted_values_are_read_as_yaml_1_2() -> None:
    values = "[NO, on, SE, 12:30, 2024-01-01, 010, 1e3, true, '1', 0x1F]"
    text = f"-- ---\n-- checks:\n-- - accepted_values: {{column: code, values: {values}}}\n-- ---\nSELECT 1"
    (desired,) = desired_from_files(parse_files({"a.sql": text}))
    listed = "'NO', 'on', 'SE', '12:30', '2024-01-01', 10, 1000.0, TRUE, '1', 31"
    assert desired.checks[0].sql.endswith(f" WHERE code NOT IN ({listed})")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["publish: no"], "2: publish must be true or false, not 'no'"),
        (
            ["checks: [accepted_values: {column: a, values: [.inf]}]"],
            r"2: the value '\.inf' is not allowed here: put text in",
        ),
        (["documentation: 010"], "2: documentation must be text, not 10: put it in quotes"),
        (["publish: true", 'documentation: "\\ud83d"'], "3: text must not contain unpaired surrogates"),
        (EXPANDING, r"\d+: there are more than 10,000 values, with what aliases"),
    ],
)
def test_invalid_front_matter_is_an_error(lines: list[str], problem: str) -> None:
    block = "".join(f"-- {line}\n" for line in ("---", *lines, "---"))
    with pytest.raises(TransformFileError, match=rf"^a\.sql, line {problem}"):
        parse(f"{block}SELECT 1", "a.sql")


@pytest.mark.parametrize(
    ("folder", "name", "expected"),
    [
        ("", "orders", "orders.sql"),
        ("sales/eu", "Über uns", "sales/eu/Über uns.sql"),
        ("..", ".", "%2E%2E/%2E.sql"),
        ("a.sql", "b.sql", "a.sq%6C/b.sq%6C.sql"),
        ("con", "a/b:c", "co%6E/a%2Fb%3Ac.sql"),
        ("", "taken", "taken~2.sql"),
    ],
)
def test_paths_of_new_files(folder: str, name: str, expected: str) -> None:
    assert path_for(folder, name, ["Taken.sql"]) == expected


def test_link_to_a_file_is_kept(tmp_path: Path) -> None:
    fields = {"name": "a", "folder_path": "", "sql_template": "SELECT 1", "status": "draft", "materialization": "view"}
    pulled = pull_transforms(Service([fields | {"is_newest": True}]), [])
    (tmp_path / "real").write_text("")
    (tmp_path / "a.sql").symlink_to(tmp_path / "real")
    write_files(tmp_path, pulled)
    assert (tmp_path / "a.sql").is_symlink()
    assert (tmp_path / "real").read_text() == pulled.texts["a.sql"]


def test_links_out_of_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "..data").mkdir(parents=True)
    (folder / "..data/a.sql").write_text("SELECT 1")
    # Kubernetes mounts files as links to other files in the folder.
    (folder / "a.sql").symlink_to("..data/a.sql")
    assert [file.path for file in read_files(folder)] == ["a.sql"]
    (tmp_path / "key").write_text("a secret")
    (folder / "b.sql").symlink_to("../key")
    with pytest.raises(TransformFileError, match=r"models/b.sql' is a link that leads out of the folder"):
        read_files(folder)
    (folder / "b.sql").unlink()
    (tmp_path / "others").mkdir()
    (folder / "c").symlink_to(tmp_path / "others")
    with pytest.raises(TransformFileError, match=r"models/c' is a link to a folder"):
        read_files(folder)


@pytest.mark.parametrize("target", ["shared/a.sql", "../shared/a.sql", "a.sql"])
def test_links_to_missing_files_are_an_error(tmp_path: Path, target: str) -> None:
    (tmp_path / "b.sql").write_text("SELECT 1")
    (tmp_path / "notes.txt").symlink_to("missing")
    assert len(read_files(tmp_path)) == 1
    (tmp_path / "a.sql").symlink_to(target)
    # A deployment that ignored the file would delete its transform as an orphan.
    with pytest.raises(TransformFileError, match=r"/a.sql' is a link to a missing file"):
        read_files(tmp_path)


def test_unreadable_subfolder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("b.sql", "sales/a.sql", ".git/c.sql"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("SELECT 1")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith(("/sales", "/.git")):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    # Root can read every folder.
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(TransformFileError, match=r"/sales can't be read: Permission denied\.$"):
        read_files(tmp_path)


@pytest.mark.parametrize("link", ["a.sql", "sales"])
def test_links_out_of_the_folder_are_not_written(tmp_path: Path, link: str) -> None:
    text = "SELECT 1\n"
    report = Report(())
    pulled = Pulled({"0.sql": text, "a.sql": text, "sales/b.sql": text}, frozenset(["0.sql", "a.sql"]), (), report)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("precious")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / link).symlink_to(outside / "key" if link == "a.sql" else outside)
    with pytest.raises(TransformFileError, match="the path contains a link to another place: nothing was written"):
        write_files(folder, pulled, force=True)
    assert [each.name for each in folder.iterdir()] == [link]
    assert [each.name for each in outside.iterdir()] == ["key"]
    assert (outside / "key").read_text() == "precious"


def test_front_matter_can_follow_empty_lines() -> None:
    text = "\n \t\r\n-- ---\n-- publish: false\n-- ---\nSELECT 1\n"
    file = parse(text, "a.sql")
    assert file.front.publish is False
    assert file.sql == "SELECT 1\n"
    assert file.block + file.sql == text
    for old, new, problem in (
        ("false", "no", "line 4: publish must be true or false, not 'no'"),
        ("publish", "1", "line 4: 1: a key must be text"),
        ("false\n-- ---", "false", "line 5: the front matter that begins in line 3 is not closed"),
    ):
        with pytest.raises(TransformFileError, match=rf"^a\.sql, {problem}"):
            parse(text.replace(old, new), "a.sql")
    assert parse("\n\nSELECT 1", "a.sql").sql == "\n\nSELECT 1"


def test_direct_names_without_the_sql_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"marts.paid": "model.marts.paid"}
    assert named_directly("SELECT * FROM marts.paid", places) == ["model.marts.paid"]
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert named_directly("SELECT * FROM marts.paid", places) == []


def test_report_text_omits_unchanged_items() -> None:
    done = [
        ReportItem("transform", "a", Result.CREATED),
        ReportItem("transform", "b", Result.UNCHANGED),
        ReportItem("transform", "c\x1b[2J", Result.FAILED, "why"),
    ]
    report = Report(tuple(done), ("Look.",))
    text = "created transform a\nfailed transform c\\x1b[2J: why\nWarning: Look.\n1 created, 1 unchanged, 1 failed.\n"
    assert report_text(report) == text
    assert report_text(report, colored=True).startswith("\x1b[32mcreated transform a\x1b[0m\n\x1b[31mfailed")
    assert report.as_json()["failed"] is True
    counts = {"created": 1, "unchanged": 1, "failed": 1}
    assert report.as_json()["counts"] == dict.fromkeys(map(str, Result), 0) | counts
    assert report_text(Report()) == "Nothing to do.\n"
