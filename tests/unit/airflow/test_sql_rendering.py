"""Rendering of SQL fields by Airflow: inline, from files, and mapped. References of the service stay."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
from jinja2 import TemplateNotFound, UndefinedError

from airflow_provider_datapipe.operators.query_previews import (
    DatapipeCheckOperator,
    DatapipeThresholdCheckOperator,
    QueryPreviewOperator,
)
from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator
from airflow_provider_datapipe.operators.transforms import TransformDeployOperator
from tests.support.airflow_versions import since
from tests.support.dags import new_dag

CONTEXT: dict[str, Any] = {"ds": "2026-01-02", "params": {"most": 3}, "run_id": "manual"}
INLINE = "SELECT '{{ ds }}' AS day FROM {{raw.stripe.payments}} LIMIT {{ params.most }} -- {{ mine() }}"
NATIVE: dict[str, Any] = {"render_template_as_native_obj": True}
RENDERED = "SELECT '2026-01-02' AS day FROM {{raw.stripe.payments}} LIMIT 3 -- macro"


@pytest.fixture
def searchpath(tmp_path: Path) -> Path:
    """Return a folder of SQL files."""
    (tmp_path / "models" / "sales").mkdir(parents=True)
    (tmp_path / "inline.sql").write_text(INLINE)
    (tmp_path / "least.sql").write_text("SELECT {{ params.most }} FROM {{raw.a.b}}")
    (tmp_path / "models" / "sales" / "orders.sql").write_text("{% include 'inline.sql' %}\n")
    (tmp_path / "models" / "wrong.sql").write_text("SELECT {{ ts }}\n")
    return tmp_path


def dag(searchpath: Path, **more: Any) -> DAG:
    macros = {"mine": lambda: "macro"}
    return new_dag(template_searchpath=[str(searchpath)], user_defined_macros=macros, params={"most": 3}, **more)


def rendered(task: BaseOperator, *, files: bool) -> BaseOperator:
    """Render a task like a worker, after the DAG file was parsed."""
    if files:
        task.resolve_template_files()
    task.render_template_fields({**CONTEXT, "task": task}, task.get_dag().get_template_env())  # type: ignore[union-attr, typeddict-item]  # the used part of a context
    return task


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("files", [False, True], ids=["at run time", "when the DAG is read"])
@pytest.mark.parametrize("given", [INLINE, "inline.sql"])
def test_sql_is_rendered_and_shown_as_a_rendered_field(
    given: str, *, files: bool, native: bool, searchpath: Path
) -> None:
    with dag(searchpath, render_template_as_native_obj=native):
        task = TransformDeployOperator(task_id="t", name="{{ ds }}", sql_template=given, publish="{{ True }}")
    rendered(task, files=files)
    assert task.sql_template == RENDERED
    assert (task.name, task.publish) == ("2026-01-02", True if native else "True")
    assert _serialize_rendered_fields(task)["sql_template"] == RENDERED


@pytest.mark.parametrize(
    ("of_dag", "of_task"),
    [
        ({}, {}),
        (NATIVE, {}),
        pytest.param({}, NATIVE, marks=since("3.2", "render_template_as_native_obj of an operator")),
    ],
    ids=["text", "native DAG", "native task"],
)
def test_rendered_sql_stays_text_with_native_objects(
    of_dag: dict[str, Any], of_task: dict[str, Any], searchpath: Path
) -> None:
    with dag(searchpath, **of_dag):
        task = DatapipeCheckOperator(task_id="t", sql_template="{{ params.most }}", **of_task)
    assert rendered(task, files=False).sql_template == "3"  # type: ignore[attr-defined]  # of the operator


def test_all_sql_fields_are_rendered(searchpath: Path) -> None:
    with dag(searchpath):
        task = DatapipeThresholdCheckOperator(
            task_id="t", sql_template="{{raw.x}}", min_threshold="least.sql", max_threshold="{{ params.most }}"
        )
    rendered(task, files=True)
    assert (task.sql_template, task.min_threshold, task.max_threshold) == (
        "{{raw.x}}",
        "SELECT 3 FROM {{raw.a.b}}",
        "3",
    )


def test_undefined_name_in_another_field_is_an_error(searchpath: Path) -> None:
    with dag(searchpath):
        task = TransformDeployOperator(task_id="t", name="{{ nosuch }}", sql_template="SELECT 1")
    with pytest.raises(UndefinedError, match="nosuch"):
        rendered(task, files=False)


@pytest.mark.parametrize("files", [False, True])
def test_missing_file_raises_with_its_name(*, files: bool, searchpath: Path) -> None:
    with dag(searchpath):
        task = QueryPreviewOperator(task_id="t", sql_template="models/nowhere.sql")
    with pytest.raises(TemplateNotFound, match=r"models/nowhere\.sql"):
        rendered(task, files=files)


def test_mapped_tasks_are_rendered(searchpath: Path) -> None:
    with dag(searchpath):
        mapped = TransformDeployOperator.partial(task_id="t", name="n").expand(sql_template=[INLINE, "inline.sql"])
    for index in range(2):
        more = {"dag": mapped.get_dag(), "dag_run": SimpleNamespace(conf={}), "ti": Instance(index)}
        context: dict[str, Any] = {**CONTEXT, **more}
        mapped.render_template_fields(context, mapped.get_dag().get_template_env())  # type: ignore[arg-type, union-attr]  # the used part of a context
        assert context["task"].sql_template == RENDERED


class Instance:
    """Attributes of a task instance that a mapped task reads."""

    is_mapped = True

    def __init__(self, map_index: int) -> None:
        self.map_index = map_index


def read(searchpath: Path, folder: str, **arguments: Any) -> Any:
    """Return the transforms in a folder."""
    with dag(searchpath):
        task = TransformBulkDeployOperator(task_id="t", folder=folder, **arguments)
    return task._read(CONTEXT)  # type: ignore[arg-type]  # the used part of a context


@pytest.mark.parametrize("absolute", [False, True])
def test_files_of_a_folder_are_rendered(*, absolute: bool, searchpath: Path) -> None:
    (searchpath / "models" / "wrong.sql").unlink()
    folder = str(searchpath / "models") if absolute else "models"
    (found,) = read(searchpath, folder, folder_path="/dbt/", materialization="table")
    assert (found.path, found.sql_template, found.materialization) == ("dbt/sales/orders", RENDERED, "table")


def test_unrenderable_file_of_a_folder_raises_with_its_name(searchpath: Path) -> None:
    with pytest.raises(ValueError, match=r"wrong\.sql: 'ts' is undefined"):
        read(searchpath, "models")


@pytest.mark.parametrize("folder", ["nowhere", "empty", ""])
def test_folder_without_files_raises_with_its_name(folder: str, searchpath: Path) -> None:
    (searchpath / "empty").mkdir()
    with pytest.raises(ValueError, match=f"folder.*{folder}"):
        read(searchpath, folder)
