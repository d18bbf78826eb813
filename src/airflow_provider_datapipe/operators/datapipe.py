"""An operator for any endpoint of the interface."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.change import DatapipeChangeOperator


class DatapipeOperator(DatapipeChangeOperator):
    """
    Call an endpoint of the interface by its name, if no other operator does.

    Returns the response as JSON: the declared fields, without those that may be secret; None for an empty response.
    With ``all_pages`` or ``limit``, returns the items of a list, otherwise one page of it.

    Sends exactly one request per page: it does not resolve names, does not wait for a requested run, and a retry sends
    the request again, regardless of its first outcome. An error of the service fails the task, also if the resource
    already has the requested state.

    :param endpoint: name of the endpoint, such as ``elt_syncs.enable``. (templated)
    :param arguments: the arguments of the endpoint's function by their names, such as ``{"sync_id": "..."}``; or the
        text of such a mapping. (templated)
    :param all_pages: read all pages of a list: True, or its text. (templated)
    :param limit: maximum number of items of a list, over all pages; None for one page. (templated)

    .. seealso:: :ref:`Interface <interface>` for names and arguments.
    """

    endpoint: str
    flow = "requests.call"

    def __init__(
        self,
        *,
        endpoint: str,
        arguments: dict[str, Any] | str | None = None,
        all_pages: bool | str = False,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def _log_result(self, result: Any) -> None:
        outcome = "done" if result is None else "response received"
        if isinstance(result, list):
            outcome = f"{len(result)} items"
        self.log.info("%s: %s.", self.endpoint, outcome)
