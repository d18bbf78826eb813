"""Query and check operators. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_datapipe.links import address_of, show_link
from airflow_provider_datapipe.operators.transforms import DatapipeSqlOperator

if TYPE_CHECKING:
    from decimal import Decimal

    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.resources.query_previews import QueryResult
    from airflow_provider_datapipe.runs.batch import Batch


class DatapipeQueryOperator(DatapipeSqlOperator):
    """
    Base of operators that run queries, and wait for their rows.

    A query only reads data, so a retry of the task runs a new query. ``if_running`` and ``on_kill`` have no effect.
    """

    kind = "query_preview"
    endpoints = ("query_previews.create",)

    def _rows_needed(self) -> int:
        """Return the number of rows to read from each query."""
        return 1

    def _queries(self) -> dict[str, str]:
        """Return the queries by their purpose."""
        raise NotImplementedError

    def _evaluate(self, results: dict[str, QueryResult]) -> tuple[Any, Exception | None]:
        """Return the result of the task and its error, if any, after all queries."""
        raise NotImplementedError

    def _lineage_queries(self) -> dict[str, str]:
        return self._queries()

    def _create_batch(self) -> Flow[Batch]:
        from airflow_provider_datapipe.resources import query_previews

        return query_previews.begin(self._queries())

    def _show_links(self, context: Context, hook: DatapipeHook, batch: Batch) -> None:
        query_id = next((each.run_id for each in batch.references), None)
        # Without named pages, the setting ``link`` may not apply to queries.
        template = hook.page_template if hook.named_pages else None
        show_link(self, context, address_of(template, self.kind, query_id))

    async def _after_runs(self, batch: Batch) -> None:
        from airflow_provider_datapipe.resources.query_previews import read_rows

        self._results = await read_rows(batch, self._rows_needed())

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        from airflow_provider_datapipe.runs.results import build_run_result, exception_for

        for end in batch.ended:
            error = exception_for(end)
            if error is not None:
                return build_run_result(end), error
        return self._evaluate(self._results)


class QueryPreviewOperator(DatapipeQueryOperator):
    """
    Run a query, wait for its end, and return its first rows.

    Returns a :class:`~airflow_provider_datapipe.resources.query_previews.QueryResult`. If the query fails, the task
    fails with the message of the service.

    :param sql_template: one SELECT statement, or the path of a ``.sql`` file with it. Airflow renders expressions with
        names of the context, such as ``{{ ds }}``. The service resolves other references, such as
        ``{{raw.stripe.payments}}``. (templated)
    :param max_rows: the most rows to return. The service may have a lower limit. (templated)

    .. seealso:: :ref:`POST /transforms/query_previews <interface-query-previews-create>`.
    """

    template_fields: Sequence[str] = (*DatapipeQueryOperator.template_fields, "sql_template", "max_rows")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql_template": "sql"}

    def __init__(self, *, sql_template: str, max_rows: int | str = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sql_template = sql_template
        self.max_rows = max_rows

    def _queries(self) -> dict[str, str]:
        # Raise before a request is sent.
        self._rows_needed()
        return {"sql_template": self.sql_template}

    def _rows_needed(self) -> int:
        from airflow_provider_datapipe.resources.template_values import number

        return number("max_rows", self.max_rows, least=0)

    def _evaluate(self, results: dict[str, QueryResult]) -> tuple[QueryResult, None]:
        return results["sql_template"], None


class DatapipeChecksOperator(DatapipeQueryOperator):
    """
    Base of operators that check data on the service, as Airflow's SQL check operators do in a database.

    :param sql_template: one SELECT statement, or the path of a ``.sql`` file with it. Its first row is checked. Airflow
        renders expressions with names of the context, such as ``{{ ds }}``. The service resolves other references,
        such as ``{{raw.stripe.payments}}``. (templated)
    :param retry_on_failure: if False, a failed check fails the task without further retries. Other errors are always
        retried. (templated)
    """

    template_fields: Sequence[str] = (*DatapipeQueryOperator.template_fields, "sql_template", "retry_on_failure")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql_template": "sql"}
    ui_color = "#fff7e6"

    def __init__(self, *, sql_template: str, retry_on_failure: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sql_template = sql_template
        self.retry_on_failure = retry_on_failure

    def _queries(self) -> dict[str, str]:
        from airflow_provider_datapipe.resources.template_values import flag

        # Raise before a request is sent.
        flag("retry_on_failure", self.retry_on_failure)
        return {"sql_template": self.sql_template}

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        """
        Check the first row, and return further entries for the result.

        :raises CheckFailedError: if the check fails.
        """
        raise NotImplementedError

    def _evaluate(self, results: dict[str, QueryResult]) -> tuple[dict[str, Any], Exception | None]:
        from airflow.providers.common.compat.sdk import AirflowFailException

        from airflow_provider_datapipe.resources.checks import CheckFailedError, first_row
        from airflow_provider_datapipe.resources.template_values import flag

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
    Check that each value of the first row of a query is true in Python: not 0, false, empty or null.

    The check fails if the query returns no rows. Text with a number counts as the number, because services send exact
    decimals as text. Returns ``passed``, ``query_execution_id`` and ``row``, also if the check fails.

    .. seealso:: :ref:`POST /transforms/query_previews <interface-query-previews-create>`, and Airflow's
        ``SQLCheckOperator``.
    """

    def __init__(self, *, sql_template: str, **kwargs: Any) -> None:
        super().__init__(sql_template=sql_template, **kwargs)

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.resources.checks import check_truth

        check_truth(self.sql_template, row)
        return {}


class DatapipeValueCheckOperator(DatapipeChecksOperator):
    """
    Check that each value of the first row of a query equals an expected value.

    The check fails if the query returns no rows. Returns ``passed``, ``query_execution_id`` and ``row``, also if the
    check fails.

    :param pass_value: the expected value. A number, or text with a number, is compared as a number, other values as
        text. (templated)
    :param tolerance: the largest accepted deviation of a number as a fraction of ``pass_value``, such as 0.05; None for
        equality. (templated)

    .. seealso:: :ref:`POST /transforms/query_previews <interface-query-previews-create>`, and Airflow's
        ``SQLValueCheckOperator``.
    """

    template_fields: Sequence[str] = (*DatapipeChecksOperator.template_fields, "pass_value", "tolerance")

    def __init__(
        self, *, sql_template: str, pass_value: Any, tolerance: float | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(sql_template=sql_template, **kwargs)
        self.pass_value = pass_value
        self.tolerance = tolerance

    def _queries(self) -> dict[str, str]:
        from airflow_provider_datapipe.resources.checks import tolerance_of

        # Raise before a request is sent.
        tolerance_of(self.tolerance)
        return super()._queries()

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.resources.checks import check_value, tolerance_of

        check_value(self.sql_template, row, self.pass_value, tolerance_of(self.tolerance))
        return {}


class DatapipeThresholdCheckOperator(DatapipeChecksOperator):
    """
    Check that the first value of the first row of a query is between two thresholds, or equal to one of them.

    The check fails if the query returns no rows, or the value is not a number. Returns ``passed``,
    ``query_execution_id`` and ``row``, also if the check fails. If it passes, the result also has ``value``,
    ``min_threshold`` and ``max_threshold``.

    :param min_threshold: the lowest accepted value: a number, or SQL (or the path of a ``.sql`` file) that returns it.
        (templated)
    :param max_threshold: the highest accepted value, in the same form. (templated)

    .. seealso:: :ref:`POST /transforms/query_previews <interface-query-previews-create>`, and Airflow's
        ``SQLThresholdCheckOperator``.
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
        from airflow_provider_datapipe.resources.checks import bound

        bounds = {field: bound(field, getattr(self, field)) for field in ("min_threshold", "max_threshold")}
        return super()._queries() | {field: read for field, read in bounds.items() if isinstance(read, str)}

    def _check(self, row: dict[str, Any], results: dict[str, QueryResult]) -> dict[str, Any]:
        from airflow_provider_datapipe.resources.checks import bound, check_threshold, first_row, number_of

        def limit(field: str) -> Decimal:
            read = bound(field, getattr(self, field))
            return number_of(field, read, first_row(read, results[field]["rows"])) if isinstance(read, str) else read

        value = number_of("the value", self.sql_template, row)
        least, most = limit("min_threshold"), limit("max_threshold")
        check_threshold(self.sql_template, value, least, most)
        return {"value": float(value), "min_threshold": float(least), "max_threshold": float(most)}
