"""Operators for queries, and what all operators share that are given SQL. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.links import address_of, show_link
from airflow_provider_datapipe.operators.base import DatapipeRunOperator

if TYPE_CHECKING:
    from airflow.sdk import Context
    from jinja2 import Environment, Template

    from airflow_provider_datapipe.changes.query_previews import QueryResult
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.steps import Steps


class DatapipeSqlOperator(DatapipeRunOperator):
    """
    An operator that is given SQL, as text or as the path of a ``.sql`` file.

    Both Airflow's Jinja and the service's references stand in double braces. What begins with a name that Jinja knows,
    such as ``{{ ds }}`` or ``{{ params.day }}``, is rendered; all else, such as ``{{raw.stripe.payments}}``, is left
    for the service. SQL is always rendered to text, also in DAGs that render native objects.
    """

    template_ext: Sequence[str] = (".sql",)
    #: Which of the template fields are SQL.
    sql_fields: ClassVar[tuple[str, ...]] = ("sql_template",)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: Environment,
        seen_oids: set[int],
    ) -> None:
        # Airflow calls this for mapped tasks, too.
        fields = list(template_fields)
        sql = [field for field in fields if parent is self and field in self.sql_fields]
        others = [field for field in fields if field not in sql]
        super()._do_render_template_fields(parent, others, context, jinja_env, seen_oids)
        if sql:
            environment = self._sql_environment(context, jinja_env)
            super()._do_render_template_fields(parent, sql, context, environment, seen_oids)

    def _render(self, template: Template, context: Context, dag: Any = None) -> Any:
        from airflow.sdk.definitions.context import render_template_to_string

        from airflow_provider_datapipe.changes.sql_templates import keeps_references

        if keeps_references(template.environment):
            return render_template_to_string(template, context)
        return super()._render(template, context, dag)

    def _sql_environment(self, context: Context, jinja_env: Environment) -> Environment:
        from airflow.sdk.definitions.context import Context as AirflowContext
        from jinja2.nativetypes import NativeEnvironment

        from airflow_provider_datapipe.changes.sql_templates import keeping_references

        dag = self.get_dag()
        if isinstance(jinja_env, NativeEnvironment) and dag is not None:
            jinja_env = dag.get_template_env(force_sandboxed=True)
        # A run without a logical date has no ds: that it is missing is to be said, and not to be sent.
        return keeping_references(jinja_env, {*context, *AirflowContext.__annotations__})


class DatapipeQueryOperator(DatapipeSqlOperator):
    """
    An operator that runs queries, and waits for their rows.

    A query only reads: when the task is tried again, it runs another one. ``if_running`` and ``on_kill`` mean nothing
    for it.
    """

    kind = "query_preview"
    endpoints = ("query_previews.create",)

    def _rows_needed(self) -> int:
        """Return the number of rows to read of each query."""
        return 1

    def _queries(self) -> dict[str, str]:
        """Return the queries by their purpose."""
        raise NotImplementedError

    def _judge(self, results: dict[str, QueryResult]) -> tuple[Any, Exception | None]:
        """Return the result of the task and its error, if any, after all queries."""
        raise NotImplementedError

    def _lineage_queries(self) -> dict[str, str]:
        return self._queries()

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.changes import query_previews

        return query_previews.begin(self._queries())

    def _show_links(self, context: Context, hook: DatapipeHook, batch: Batch) -> None:
        query_id = next((each.run_id for each in batch.references), None)
        # Services that do not name their pages may have no page of queries, whatever the setting ``link`` is.
        template = hook.page_template if hook.named_pages else None
        show_link(self, context, address_of(template, self.kind, query_id))

    def _go_on(self, batch: Batch) -> Steps[None]:
        from airflow_provider_datapipe.changes.query_previews import read_rows

        self._results = yield from read_rows(batch, self._rows_needed())

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        from airflow_provider_datapipe.runs.verdict import error_of, result_of

        for end in batch.ended:
            error = error_of(end)
            if error is not None:
                return result_of(end), error
        return self._judge(self._results)


class QueryPreviewOperator(DatapipeQueryOperator):
    """
    Run a query, wait for its end, and return its first rows.

    Returns a :class:`~airflow_provider_datapipe.changes.query_previews.QueryResult`. If the query fails, so does the
    task, with the service's message.

    :param sql_template: one SELECT, or the path of a ``.sql`` file with it. Names of the context are Airflow's, such as
        ``{{ ds }}``; other references, such as ``{{raw.stripe.payments}}``, the service's. (templated)
    :param max_rows: the most rows to return. The service may give fewer than there are, too. (templated)

    .. seealso:: interface.md, "POST /transforms/query_previews".
    """

    template_fields: Sequence[str] = (*DatapipeQueryOperator.template_fields, "sql_template", "max_rows")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql_template": "sql"}

    def __init__(self, *, sql_template: str, max_rows: int | str = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sql_template = sql_template
        self.max_rows = max_rows

    def _queries(self) -> dict[str, str]:
        # Refused before anything is sent.
        self._rows_needed()
        return {"sql_template": self.sql_template}

    def _rows_needed(self) -> int:
        from airflow_provider_datapipe.changes.values import number

        return number("max_rows", self.max_rows, least=0)

    def _judge(self, results: dict[str, QueryResult]) -> tuple[QueryResult, None]:
        return results["sql_template"], None


class DatapipeChecksOperator(DatapipeQueryOperator):
    """
    An operator that fails where data is not as it should be: as Airflow's SQL check operators do, on the service.

    :param sql_template: one SELECT, or the path of a ``.sql`` file with it; its first row is checked. Names of the
        context are Airflow's, such as ``{{ ds }}``; other references, such as ``{{raw.stripe.payments}}``, the
        service's. (templated)
    :param retry_on_failure: whether a check that fails is tried again, as often as the task has retries; what else
        fails always is. (templated)
    """

    template_fields: Sequence[str] = (*DatapipeQueryOperator.template_fields, "sql_template", "retry_on_failure")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql_template": "sql"}
    ui_color = "#fff7e6"

    def __init__(self, *, sql_template: str, retry_on_failure: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sql_template = sql_template
        self.retry_on_failure = retry_on_failure

    def _queries(self) -> dict[str, str]:
        from airflow_provider_datapipe.changes.values import flag

        # Refused before anything is sent.
        flag("retry_on_failure", self.retry_on_failure)
        return {"sql_template": self.sql_template}

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        """
        Check the first row; give what is of interest of the check besides.

        :raises CheckFailedError: it is not as it should be.
        """
        raise NotImplementedError

    def _judge(self, results: dict[str, QueryResult]) -> tuple[dict[str, Any], Exception | None]:
        from airflow.providers.common.compat.sdk import AirflowFailException

        from airflow_provider_datapipe.changes.checks import CheckFailedError, first_row
        from airflow_provider_datapipe.changes.values import flag

        checked = results["sql_template"]
        rows = checked["rows"]
        result = {
            "passed": False,
            "query_execution_id": checked["query_execution_id"],
            "row": rows[0] if rows else None,
        }
        try:
            found = self._check(first_row(self.sql_template, rows), results)
        except CheckFailedError as error:
            is_final = not flag("retry_on_failure", self.retry_on_failure)
            return result, AirflowFailException(str(error)) if is_final else error
        return {**result, **found, "passed": True}, None


class DatapipeCheckOperator(DatapipeChecksOperator):
    """
    Check that every value of a query's first row is true, in the sense of Python: not 0, false, empty or null.

    A query without rows fails. A text that is a number counts as that number, as services send exact decimals so.
    Returns ``passed``, ``query_execution_id`` and ``row``; also where it fails.

    .. seealso:: interface.md, "POST /transforms/query_previews", and Airflow's ``SQLCheckOperator``.
    """

    def __init__(self, *, sql_template: str, **kwargs: Any) -> None:
        super().__init__(sql_template=sql_template, **kwargs)

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.changes.checks import check_truth

        check_truth(self.sql_template, row)
        return {}


class DatapipeValueCheckOperator(DatapipeChecksOperator):
    """
    Check that every value of a query's first row is a certain one.

    A query without rows fails. Returns ``passed``, ``query_execution_id`` and ``row``; also where it fails.

    :param pass_value: the value. A number, or the text of one, is compared as a number, anything else as text.
        (templated)
    :param tolerance: by which part of ``pass_value`` a number may be off, such as 0.05; None for not at all.
        (templated)

    .. seealso:: interface.md, "POST /transforms/query_previews", and Airflow's ``SQLValueCheckOperator``.
    """

    template_fields: Sequence[str] = (*DatapipeChecksOperator.template_fields, "pass_value", "tolerance")

    def __init__(
        self, *, sql_template: str, pass_value: Any, tolerance: float | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(sql_template=sql_template, **kwargs)
        self.pass_value = pass_value
        self.tolerance = tolerance

    def _queries(self) -> dict[str, str]:
        from airflow_provider_datapipe.changes.checks import tolerance_of

        # Refused before anything is sent.
        tolerance_of(self.tolerance)
        return super()._queries()

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.changes.checks import check_value, tolerance_of

        check_value(self.sql_template, row, self.pass_value, tolerance_of(self.tolerance))
        return {}


class DatapipeThresholdCheckOperator(DatapipeChecksOperator):
    """
    Check that the first value of a query's first row lies between two thresholds, or is one of them.

    A query without rows fails, as does a value that is no number. Returns ``passed``, ``query_execution_id`` and
    ``row``, also where it fails, and ``value``, ``min_threshold`` and ``max_threshold``.

    :param min_threshold: the least value: a number, or SQL (or the path of a ``.sql`` file) whose first value it is.
        (templated)
    :param max_threshold: the most, likewise. (templated)

    .. seealso:: interface.md, "POST /transforms/query_previews", and Airflow's ``SQLThresholdCheckOperator``.
    """

    template_fields: Sequence[str] = (*DatapipeChecksOperator.template_fields, "min_threshold", "max_threshold")
    sql_fields = ("sql_template", "min_threshold", "max_threshold")

    def __init__(
        self, *, sql_template: str, min_threshold: float | str, max_threshold: float | str, **kwargs: Any
    ) -> None:
        super().__init__(sql_template=sql_template, **kwargs)
        self.min_threshold = min_threshold
        self.max_threshold = max_threshold

    def _queries(self) -> dict[str, str]:
        from airflow_provider_datapipe.changes.checks import bound

        bounds = {field: bound(field, getattr(self, field)) for field in ("min_threshold", "max_threshold")}
        return super()._queries() | {field: read for field, read in bounds.items() if isinstance(read, str)}

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.changes.checks import bound, check_threshold, first_row, number_of

        def limit(field: str) -> float:
            read = bound(field, getattr(self, field))
            return number_of(field, read, first_row(read, results[field]["rows"])) if isinstance(read, str) else read

        value = number_of("the value", self.sql_template, row)
        least, most = limit("min_threshold"), limit("max_threshold")
        check_threshold(self.sql_template, value, least, most)
        return {"value": value, "min_threshold": least, "max_threshold": most}
