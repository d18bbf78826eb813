"""Invalid arguments: errors at DAG parsing or after the rendering of templates."""

from __future__ import annotations

import inspect
import json
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe import assets, task_groups
from airflow_provider_datapipe.arguments import CheckedArguments, check_argument, whole_seconds
from airflow_provider_datapipe.assets import elt_stream_asset
from airflow_provider_datapipe.durations import parse_duration
from airflow_provider_datapipe.notifications import describe, failure
from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator, EltSyncUpdateOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import (
    ReverseEtlRunOperator,
    ReverseEtlSyncCreateOperator,
    ReverseEtlSyncUpdateOperator,
)
from airflow_provider_datapipe.operators.schedules import paused_schedule
from airflow_provider_datapipe.operators.workspaces import WorkspaceApplyOperator, WorkspacePlanOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, EltSyncRunSensor
from airflow_provider_datapipe.sensors.state import EltStreamFreshnessSensor
from airflow_provider_datapipe.task_groups import DatapipeTaskGroup
from airflow_provider_datapipe.triggers import events
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger
from tests.support.dags import new_dag
from tests.unit.airflow.test_classes import CONCRETE, make, own_parameters

#: Arguments that take values of any type, and the reason.
ANY_TYPE = {
    "bridge": "the result of a task",
    "snapshot": "the result of a task",
    "notifiers": "notifiers and callbacks",
    "pass_value": "a number or a text, compared with the result of SQL",
    "records": "records of any form; checked when the task runs",
}
#: Arguments of functions that take values of any type, and the reason.
ANY_TYPE_OF_FUNCTIONS = {
    "body": "any JSON",
    "context": "the context of Airflow",
    "exclude": "a text, a list or a function; checked with the snapshot",
    "node_args": "a dict or a function; checked with the snapshot",
    "notifier": "a notifier or a callback",
    "select": "a text, a list or a function; checked with the snapshot",
}
#: Modules whose functions are called by the provider and Airflow, not by DAG files.
INTERNAL = {"alias_of", "asset_of", "declared", "run_of", "sanitize_uri", "report", "report_of"}
UPDATE = {"reverse_etl_sync_id": "s", "enabled": True, "wait_for_run": "{{ params.wait }}"}
#: Classes that DAG files receive instances of, but do not instantiate.
RESULTS = {"Failure"}


class Wrong:
    """Value with a type that no argument accepts."""


def shop(default_args: dict[str, Any] | None = None) -> DAG:
    return new_dag("shop", default_args=default_args or {})


def arguments() -> list[Any]:
    return [
        pytest.param(found, name, id=f"{found.__name__}-{name}")
        for found in CONCRETE
        for name in own_parameters(found)
        if name not in ANY_TYPE
    ]


@pytest.mark.parametrize(("found", "name"), arguments())
def test_wrong_type_names_argument_and_task(found: type[BaseOperator], name: str) -> None:
    with pytest.raises(ValueError, match=rf"Task t(\w)*: {name} must be .*, not a value of type Wrong$"):
        make(found, **{name: Wrong()})


@pytest.mark.parametrize("found", CONCRETE)
def test_templated_arguments_take_templates(found: type[BaseOperator]) -> None:
    assert issubclass(found, CheckedArguments)
    for name in {*found.template_fields} & own_parameters(found).keys() - ANY_TYPE.keys():
        annotation = own_parameters(found)[name].annotation
        assert check_argument(name, "{{ params.x }}", annotation, is_templated=True) == "{{ params.x }}"


@pytest.mark.parametrize(
    ("found", "wrong", "message"),
    [
        (EltStreamFreshnessSensor, {"max_age": "6 hrs"}, "max_age must be a duration such as '6h', timedelta"),
        (EltStreamRunOperator, {"timeout": True}, r"timeout must be a duration .*, not True \(bool\)"),
        (EltStreamRunOperator, {"full_refresh": "yes"}, r"full_refresh must be True or False, not 'yes' \(str\)"),
        (EltStreamRunOperator, {"stream_id": 5}, r"stream_id must be text, not 5 \(int\)"),
        (EltStreamRunOperator, {"if_running": "atach"}, "if_running must be 'attach' or .* 'skip', not 'atach'"),
        (EltStreamRunOperator, {"if_running": "atach"}, r"Did you mean 'attach'\?$"),
        (EltStreamRunOperator, {"if_running": "zzz"}, r"not 'zzz' \(str\)$"),
        (DatapipeOperator, {"all_pages": "yes"}, r"all_pages must be True or False, not 'yes' \(str\)"),
        (QueryPreviewOperator, {"max_rows": "many"}, r"max_rows must be a whole number, not 'many' \(str\)"),
        (ReverseEtlSyncUpdateOperator, {"wait_for_run": "soon"}, "wait_for_run must be a duration such as '6h'"),
        (WorkspaceApplyOperator, {"wait_for_run": "soon"}, "wait_for_run must be a duration such as '6h'"),
        (EltSyncRunOperator, {"streams": []}, "streams is empty; omit it for all streams of the sync"),
        (EltSyncRunSensor, {"streams": []}, "streams is empty; omit it for all streams of the sync"),
        (EltSyncRunSensor, {"streams": "orders"}, "streams must be a list of texts, not 'orders'"),
        (EltSyncRunOperator, {"streams": [1]}, "must be a list of texts or text, not a list with a value of type int"),
        (ReverseEtlRunOperator, {"max_failed_rows": "5%"}, r"max_failed_rows must be a whole number, not '5%' \(str\)"),
        (EltStreamRunSensor, {"poke_interval": "soon"}, "poke_interval must be a duration"),
    ],
)  # fmt: skip
def test_message_names_the_expected_form(found: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(found, **wrong)


def test_message_names_group_and_dag() -> None:
    with (
        shop(),
        TaskGroup("loads"),
        pytest.raises(ValueError, match=r"^Task loads\.orders of DAG shop: stream_id must be text"),
    ):
        EltStreamRunOperator(task_id="orders", stream_id=["x"])  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("found", "wrong", "message"),
    [
        (EltSyncUpdateOperator, {"elt_settings": ["hunter2"]}, "elt_settings must be"),
        (WorkspacePlanOperator, {"environment": "PASSWORD=hunter2"}, "environment must be a dict, not a value of"),
    ],
)
def test_message_has_no_content_of_settings(found: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        make(found, **wrong)
    assert "hunter2" not in str(raised.value)


def test_default_arguments_are_checked() -> None:
    message = "Task t of DAG shop: poll_interval must be a duration"
    with shop({"poll_interval": "often"}), pytest.raises(ValueError, match=message):
        EltStreamRunOperator(task_id="t", stream_id="s")
    message = "^Task t of DAG shop: timeout must be a duration .*, not 'often'"
    with shop({"timeout": "often"}), pytest.raises(ValueError, match=message):
        EltStreamRunSensor(task_id="t", stream_id="s")


def test_durations_can_be_text() -> None:
    task = EltStreamRunOperator(task_id="t", stream_id="s", timeout="6h", poll_interval="1m30s", defer_after="10 s")
    assert (task.timeout, task.poll_interval, task.defer_after) == (
        timedelta(hours=6),
        timedelta(seconds=90),
        timedelta(seconds=10),
    )
    sensor = EltStreamRunSensor(task_id="u", stream_id="s", poke_interval="30s", timeout="2h")
    assert (sensor.poke_interval, sensor.timeout) == (30, 7200)


def test_durations_of_default_arguments_can_be_text() -> None:
    with shop({"timeout": "6h", "poke_interval": "1m"}):
        sensor = EltStreamRunSensor(task_id="plain", stream_id="s")
        mapped: Any = EltStreamRunSensor.partial(task_id="mapped").expand_kwargs([{"stream_id": "s"}])
        own = EltStreamRunSensor(task_id="own", stream_id="s", timeout="2h", default_args={"poke_interval": "5s"})
    unmapped = mapped.unmap({"stream_id": "s"})
    assert (sensor.timeout, sensor.poke_interval) == (unmapped.timeout, unmapped.poke_interval) == (21600, 60)
    assert (own.timeout, own.poke_interval) == (7200, 5)


OFTEN = {"poll_interval": "often"}


@pytest.mark.parametrize(
    ("found", "default_args", "arguments", "message"),
    [
        (EltStreamRunOperator, {}, {"deferrable": "yes"}, "Task t: deferrable must be True or False"),
        (EltStreamRunSensor, {}, {"deferrable": "yes"}, "Task t: deferrable must be True or False"),
        (EltSyncRunOperator, {}, {"streams": []}, "Task t: streams is empty"),
        (EltSyncRunSensor, {}, {"streams": []}, "Task t: streams is empty"),
        (EltStreamRunOperator, OFTEN, {}, "Task t of DAG shop: poll_interval must be a duration"),
        (EltStreamRunSensor, {"timeout": "often"}, {}, "Task t of DAG shop: timeout must be a duration"),
    ],
)
def test_shared_arguments_of_mapped_tasks_are_checked(
    found: Any, default_args: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    with shop(default_args), pytest.raises(ValueError, match=message):
        found.partial(task_id="t", **arguments).expand(stream_id=["a"])


def test_argument_of_a_mapped_task_overrides_a_wrong_default() -> None:
    with shop(OFTEN):
        EltStreamRunOperator.partial(task_id="t", poll_interval="30s").expand(stream_id=["a"])


def test_mapped_values_are_checked_when_the_task_is_unmapped() -> None:
    with shop():
        mapped: Any = EltStreamRunOperator.partial(task_id="t", timeout="6h").expand_kwargs([{"stream_id": "a"}])
    assert mapped.unmap({"stream_id": "a"}).timeout == timedelta(hours=6)
    with pytest.raises(ValueError, match="stream_id must be text, not a value of type list"):
        mapped.unmap({"stream_id": ["a"]})


def evaluated_annotations() -> type[EltStreamRunOperator]:
    """Return an operator of a user whose module does not postpone the evaluation of annotations."""
    names: dict[str, Any] = {"__name__": "dag_file", "Base": EltStreamRunOperator}
    source = (
        "class Converting(Base):\n"
        "    def __init__(self, *, stream_id: int, label: str = '', **kwargs):\n"
        "        super().__init__(stream_id=str(stream_id), **kwargs)\n"
    )
    exec(compile(source, "dag_file", "exec", dont_inherit=True), names)  # noqa: S102 - source of this test
    found: type[EltStreamRunOperator] = names["Converting"]
    return found


def test_arguments_of_derived_classes_are_their_own() -> None:
    assert evaluated_annotations()(task_id="t", stream_id=5, label=3).stream_id == "5"  # type: ignore[arg-type]  # of the derived class
    with shop():
        evaluated_annotations().partial(task_id="t", stream_id=5).expand(label=["a"])
    with pytest.raises(ValueError, match="Task t: timeout must be a duration"):
        evaluated_annotations()(task_id="t", stream_id=5, timeout="often")  # type: ignore[arg-type]  # on purpose


def rendered(found: Any, arguments: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return a task with rendered templates, as prepared for its execution by Airflow."""
    task = found(task_id="t", **arguments)
    for name, value in values.items():
        setattr(task, name, value)
    task.pre_execute({})
    return task


@pytest.mark.parametrize(
    ("found", "streams", "message"),
    [
        (EltSyncRunSensor, "a,b", r"^Task t: streams must be a list of texts, not 'a,b' \(str\)"),
        (EltSyncRunSensor, [], r"^Task t: streams is empty"),
        (EltSyncRunOperator, [], r"^Task t: streams is empty"),
    ],
)
def test_rendered_arguments_are_checked(found: Any, streams: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rendered(found, {"sync_id": "s", "streams": "{{ params.streams }}"}, {"streams": streams})


def test_rendered_number_is_accepted_as_an_id() -> None:
    assert rendered(EltStreamRunOperator, {"stream_id": "{{ params.id }}"}, {"stream_id": 12}).stream_id == "12"


def functions() -> list[Any]:
    """Return the functions and classes for DAG files that are neither operators nor sensors."""
    modules = (assets, describe, events, failure, task_groups)
    public = [
        found
        for module in modules
        for name, found in vars(module).items()
        if name[0] != "_" and getattr(found, "__module__", "") == module.__name__ and name not in INTERNAL
        if inspect.isfunction(found) or (inspect.isclass(found) and found.__name__ not in RESULTS)
    ]
    return [paused_schedule, *public]


def parameters_of_functions() -> list[Any]:
    return [
        pytest.param(found, name, id=f"{found.__name__}-{name}")
        for found in functions()
        for name, parameter in inspect.signature(found).parameters.items()
        if parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        if name not in ANY_TYPE_OF_FUNCTIONS
    ]


@pytest.mark.parametrize(("found", "name"), parameters_of_functions())
def test_functions_check_their_arguments(found: Any, name: str) -> None:
    required = {
        each: "x"
        for each, parameter in inspect.signature(found).parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    with pytest.raises(ValueError, match=f"^{name} must be .*, not a value of type Wrong$"):
        found(**(required | {name: Wrong()}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: elt_stream_asset(["x"]), "stream_id must be text, not a value of type list"),  # type: ignore[arg-type]  # on purpose
        (lambda: elt_stream_asset("x", datapipe_conn_id=None), "datapipe_conn_id must be text, not None"),  # type: ignore[arg-type]  # on purpose
        (lambda: DatapipeTaskGroup("g", snapshot="s.json", group_by_folder="yes"), "group_by_folder must be True or"),  # type: ignore[arg-type]  # on purpose
        (lambda: DatapipeTaskGroup("g", snapshot="s.json", transforms="rebild"), "Did you mean 'rebuild'"),  # type: ignore[arg-type]  # on purpose
        (lambda: DatapipeFailureNotifier(http_conn_id="h", show_records="3"), "show_records must be a whole number"),  # type: ignore[arg-type]  # on purpose
        (lambda: EltStreamRunEventTrigger("x", poll_interval="often"), "poll_interval must be a duration such as '6h'"),
    ],
)
def test_functions_name_the_expected_form(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("given", ["1m30s", timedelta(seconds=90), 90])
def test_durations_of_watchers_and_notifiers(given: Any) -> None:
    _, arguments = EltStreamRunEventTrigger("x", poll_interval=given).serialize()
    assert json.dumps(arguments["poll_interval"]) == "90"
    assert DatapipeFailureNotifier(http_conn_id="h", timeout=given).timeout == 90


@pytest.mark.parametrize("given", ["10m", "600", 600, timedelta(minutes=10)])
def test_wait_for_run_is_a_duration(given: Any) -> None:
    task = make(ReverseEtlSyncUpdateOperator, wait_for_run=given)
    assert whole_seconds("wait_for_run", task.wait_for_run) == 600
    if not isinstance(given, timedelta):
        task = rendered(ReverseEtlSyncUpdateOperator, UPDATE, {"wait_for_run": given})
        assert whole_seconds("wait_for_run", task.wait_for_run) == 600


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{days}d{hours}h {minutes} min{seconds}s") == expected


@pytest.mark.parametrize(
    "text", ["", " ", "6", "h", "1h1h", "30m1h", "-1h", "1h 30", "1e3s", "1,5h", "\u0661h", "inf s"]
)
def test_invalid_duration_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.text())
def test_arbitrary_text_is_parsed_or_refused_as_a_duration(text: str) -> None:
    try:
        assert parse_duration(text) >= timedelta()
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017 - an error is one of two allowed results


NEW: dict[str, Any] = {
    "source_id": "s",
    "destination_connection_id": "c",
    "object_type_id": "o",
    "operation": {"mode": "insert", "mappings": []},
    "sync_interval": "0 1 * * *",
}
OLD: dict[str, Any] = {"reverse_etl_sync_id": "r"}
TWO_ORCHESTRATIONS = {"orchestration_id": "a", "orchestration_name": "b"}


@pytest.mark.parametrize(
    ("found", "arguments", "message"),
    [
        (ReverseEtlSyncCreateOperator, NEW, None),
        (ReverseEtlSyncCreateOperator, NEW | TWO_ORCHESTRATIONS, "one of orchestration_id and orchestration_name"),
        (ReverseEtlSyncCreateOperator, NEW | {"folder_path": "sales"}, "folder_path requires transform_name"),
        (ReverseEtlSyncUpdateOperator, OLD | {"enabled": False}, None),
        (ReverseEtlSyncUpdateOperator, OLD | TWO_ORCHESTRATIONS, "one of orchestration_id and orchestration_name"),
        (
            ReverseEtlSyncUpdateOperator,
            OLD | {"object_type_id": "a", "object_type_name": "b"},
            "one of object_type_id and object_type_name",
        ),
        (ReverseEtlSyncUpdateOperator, OLD, "nothing to change"),
        (ReverseEtlSyncUpdateOperator, OLD | {"wait_for_run": 5}, "nothing to change"),
    ],
)
def test_contradictory_arguments_are_refused(found: Any, arguments: dict[str, Any], message: str | None) -> None:
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        found(task_id="t", **arguments)
