"""Description of a failed task or DAG run. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2

from airflow_provider_datapipe.arguments import checked
from airflow_provider_datapipe.links import ADDRESS, DatapipeLink

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.batch import Batch

#: Maximum number of characters of an error, of a failed record, and of the whole text.
_LONGEST_ERROR = 1_500
_LONGEST_RECORD = 300
_LONGEST_TEXT = 6_000
#: Maximum number of runs in the text: an ELT sync has one for each stream.
_MOST_RUNS = 5


@dataclass(frozen=True)
class Failure:
    """
    Facts about a failure. Each text is short, on one line, and without the secrets that Airflow masks.

    :param what: the failed task or DAG run.
    :param error: the error message.
    :param runs: one line for each run that did not succeed.
    :param records: one line for each record that the destination rejected.
    :param link: URL of the resource's or run's page in the service; empty if there is none.
    :param log_url: URL of the task log; empty if there is none.
    :param happened: kind of failure, as the verb of the title.
    """

    what: str
    error: str
    runs: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    link: str = ""
    log_url: str = ""
    happened: str = "failed"

    @property
    def title(self) -> str:
        """The failed task or DAG run and the kind of failure, on one line."""
        return f"{self.what} {self.happened}."

    @property
    def text(self) -> str:
        """All facts as plain text."""
        text = "\n".join(self._lines())
        return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"

    @property
    def slack_text(self) -> str:
        """The text with escapes for Slack, so that an error message cannot mention users or become a link."""
        return self.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    def _lines(self) -> Iterator[str]:
        yield self.title
        yield self.error
        yield from self.runs
        if self.records:
            yield "Records that failed:"
            yield from (f"  {record}" for record in self.records)
        if self.link:
            yield f"On the service: {self.link}"
        if self.log_url:
            yield f"Log: {self.log_url}"

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@checked
def failure_of(context: Any, *, show_records: int = 3) -> Failure:
    """
    Return the facts about a failure from the context and the XComs, without requests to the service.

    :param context: Airflow's context of a callback of a task or DAG.
    :param show_records: number of rejected records to show; 0 for none.
    """
    if context.get("deadline") is not None:
        return Failure(_what(context), "It did not end in time.", happened="missed its deadline")
    error = _error_of(context)
    if _is_of_dag_run(context):
        # The task instance of such a context is the one that ended last. It may have succeeded.
        return Failure(_what(context), _safe(error, _LONGEST_ERROR))
    task, instance = context.get("task"), context.get("ti")
    batch: Batch | None = getattr(task, "_batch", None)
    records = [record for end in (batch.ended if batch else ()) for record in end.records]
    if records and not show_records:
        error = _without_quotes(error, batch)
    return Failure(
        what=_what(context),
        error=_safe(error, _LONGEST_ERROR),
        runs=tuple(_safe(line, _LONGEST_ERROR) for line in _runs(batch, instance)),
        records=tuple(
            _safe(f"{record['record_id']}: {record['error']}", _LONGEST_RECORD) for record in records[:show_records]
        ),
        link=getattr(task, ADDRESS, None) or _pulled(instance, DatapipeLink().xcom_key) or "",
        log_url=_log_url_of(instance),
    )


@jinja2.pass_context
@checked
def describe_failure(context: Any, *, show_records: int = 3) -> str:
    """
    Describe a failure: ``describe_failure(context)`` in Python, ``describe_failure()`` in a template of any notifier.

    For templates, add it to the DAG: ``user_defined_macros={"describe_failure": describe_failure}``. An incomplete
    context does not raise an error.

    :param context: Airflow's context of a callback. Templates pass it automatically.
    :param show_records: number of rejected records to show; 0 for none.
    """
    return report_of(context, show_records=show_records).text


def report_of(context: Any, *, show_records: int = 3) -> Failure:
    """Return the known facts about a failure. An incomplete context does not raise an error."""
    try:
        return failure_of(context, show_records=show_records)
    except Exception as error:  # noqa: BLE001 - send the notification even if facts are missing
        return Failure("A task", f"Its details could not be read ({type(error).__name__}): see its log.")


def _what(context: Any) -> str:
    instance, dag, dag_run = context.get("ti"), context.get("dag"), context.get("dag_run")
    # The context of a deadline has the DAG run as JSON.
    of_run = dag_run if isinstance(dag_run, Mapping) else getattr(dag_run, "__dict__", {})
    dag_id = getattr(instance, "dag_id", None) or getattr(dag, "dag_id", None) or of_run.get("dag_id") or "unknown"
    run_id = getattr(instance, "run_id", None) or context.get("run_id") or of_run.get("dag_run_id")
    run = f", run {run_id}" if run_id else ""
    if instance is None or _is_of_dag_run(context):
        return _safe(f"DAG {dag_id}{run}", _LONGEST_ERROR)
    index = getattr(instance, "map_index", -1)
    mapped = f"[{index}]" if isinstance(index, int) and index >= 0 else ""
    number = getattr(instance, "try_number", None)
    tried = f", try {number}" if isinstance(number, int) else ""
    return _safe(f"Task {instance.task_id}{mapped} of DAG {dag_id}{run}{tried}", _LONGEST_ERROR)


def _is_of_dag_run(context: Any) -> bool:
    # The context of a DAG callback has a reason, and the task instance that ended last.
    return context.get("reason") is not None and context.get("exception") is None


def _error_of(context: Any) -> str:
    error = context.get("exception")
    if error is None and not context.get("reason"):
        # With ``dag.test()`` of Airflow 3.1, the context has no exception.
        error = getattr(context.get("task"), "_failure", None)
    if isinstance(error, BaseException):
        from airflow_provider_datapipe.api.errors import DatapipeError

        return str(error) if isinstance(error, DatapipeError) else f"{type(error).__name__}: {error}"
    if error:
        return str(error)
    if reason := context.get("reason"):
        return f"Reason from Airflow: {reason}."
    return "Airflow ended the task without a reason: its process may have been killed. A run on the service continues."


def _runs(batch: Batch | None, instance: Any) -> Iterator[str]:
    """Yield a line for each failed run, from the task if it ran in this process, else from its XComs."""
    lines = list(_batch_lines(batch) if batch is not None else _result_lines(_pulled(instance, "return_value")))
    yield from lines[:_MOST_RUNS]
    if len(lines) > _MOST_RUNS:
        yield f"... and {len(lines) - _MOST_RUNS} more."


def _batch_lines(batch: Batch) -> Iterator[str]:
    from airflow_provider_datapipe.runs.kinds import KINDS
    from airflow_provider_datapipe.runs.results import build_run_result

    for end in batch.ended:
        yield from _result_lines(build_run_result(end))
    for reference in batch.waiting:
        run = f"run {reference.run_id}" if reference.run_id else "the requested run"
        yield f"{KINDS[reference.kind].noun} {reference.name}: {run} had not ended, and continues."


def _result_lines(result: Any) -> Iterator[str]:
    if not isinstance(result, Mapping):
        return
    if isinstance(streams := result.get("streams"), Mapping):
        for stream in streams.values():
            yield from _result_lines(stream)
        return
    if result.get("outcome") in (None, "succeeded", "skipped") or "rows_synced" not in result:
        return
    from airflow_provider_datapipe.runs.kinds import KINDS

    kind = KINDS.get(str(result.get("kind")))
    run = f" run {result['run_id']}" if result.get("run_id") else " the run"
    line = f"{kind.noun if kind else result.get('kind')} {result.get('name')}:{run} {result['outcome']}"
    yield line + "".join(_counts(result)) + "."


def _counts(result: Mapping[str, Any]) -> Iterator[str]:
    synced, total, failed = (result.get(f"rows_{what}") for what in ("synced", "total", "failed"))
    if isinstance(synced, int | float):
        yield f", {round(synced):,}{f' of {round(total):,}' if isinstance(total, int | float) else ''} rows"
    if isinstance(failed, int | float) and failed:
        yield f", {round(failed):,} failed"


def _without_quotes(error: str, batch: Batch | None) -> str:
    """Remove quoted records from an error."""
    from airflow_provider_datapipe.runs.results import build_run_result

    for end in batch.ended if batch else ():
        quoted = (build_run_result(end)["error"] or "").rstrip(".")
        if end.records and end.detail and quoted:
            error = error.replace(quoted, "its records are not shown here")
    return error


def _pulled(instance: Any, key: str) -> Any:
    """Return an XCom of the task; None if it cannot be read."""
    pull = getattr(instance, "xcom_pull", None)
    if pull is None:
        return None
    # The errors depend on the Airflow process that runs the callback.
    with suppress(Exception):
        return pull(task_ids=instance.task_id, map_indexes=instance.map_index, key=key)
    return None


def _log_url_of(instance: Any) -> str:
    with suppress(Exception):
        return str(instance.log_url)
    return ""


def _safe(text: str, longest: int) -> str:
    """Return a text on one line, shortened, and without the secrets that Airflow masks."""
    from airflow.providers.common.compat.sdk import redact

    from airflow_provider_datapipe.api.errors import one_line

    # Mask before shortening, because Airflow does not recognize a part of a secret.
    return one_line(str(redact(text)), longest=longest)
