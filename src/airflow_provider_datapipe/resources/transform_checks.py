"""Data checks of the new SQL of transforms before they are published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.errors import InvalidInputError, InvalidRequestError, in_one_line
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.resources import query_previews
from airflow_provider_datapipe.resources.checks import CheckFailedError, check_truth, first_row
from airflow_provider_datapipe.resources.transform_folder import DataCheck, replace_this
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.batch_wait import wait_for_some
from airflow_provider_datapipe.runs.results import exception_for, explain
from airflow_provider_datapipe.runs.wait import WaitPolicy

#: Number of checks that run at the same time.
_AT_A_TIME = 8
#: Checks are short queries, so the worker waits for them.
_POLICY = WaitPolicy(poll_interval=0.5)


async def failed_checks(checks: Mapping[str, tuple[str, Iterable[Mapping[str, Any]]]]) -> dict[str, str]:
    """
    Run the checks of transforms, and return the error of each transform that fails, by path.

    :param checks: ID and checks of each transform, by its path. Each check is a :class:`DataCheck` as JSON.
    """
    todo: list[tuple[str, DataCheck]] = []
    for path, (transform_id, given) in checks.items():
        own = [DataCheck(**check) for check in given]
        if own:
            # Check the SQL that the service has now.
            transform = await send(transforms.get(transform_id))
            todo += [(path, DataCheck(check.name, replace_this(check.sql, transform.sql_template))) for check in own]
    wrong: dict[str, str] = {}
    for begin in range(0, len(todo), _AT_A_TIME):
        chunk = todo[begin : begin + _AT_A_TIME]
        errors = await _errors([check.sql for _, check in chunk])
        for (path, check), error in zip(chunk, errors, strict=True):
            if error is not None:
                wrong.setdefault(path, f"the check {check.name!r} failed: {error}")
    return wrong


async def _errors(queries: list[str]) -> list[str | None]:
    """Run queries at the same time, and return the error of each query, None if it passes."""
    errors: dict[int, str] = {}
    batch = Batch(query_previews.KIND, note={"queries": {}})
    for number, sql in enumerate(queries):
        try:
            begun = await query_previews.begin({str(number): sql})
        except (InvalidInputError, InvalidRequestError) as refused:
            errors[number] = str(refused)
        else:
            batch.waiting += begun.waiting
            batch.note["queries"] |= begun.note["queries"]
    await wait_for_some(batch, _POLICY)
    numbers = {query_id: int(number) for number, query_id in batch.note["queries"].items()}
    for end in batch.ended:
        error = exception_for(await explain(end))
        if error is not None:
            errors[numbers[str(end.reference.run_id)]] = in_one_line(error)
    results = await query_previews.read_rows(batch, 1)
    for number, sql in enumerate(queries):
        if number not in errors:
            try:
                check_truth(sql, first_row(sql, results[str(number)]["rows"]))
            except CheckFailedError as failed:
                errors[number] = str(failed)
    return [errors.get(number) for number in range(len(queries))]
