"""Operator that pushes records to a webhook. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.arguments import CheckedArguments, exactly_one
from airflow_provider_datapipe.links import MapLabel
from airflow_provider_datapipe.operators.base import push_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.webhook.delivery import Delivery, IngestResult, Progress
    from airflow_provider_datapipe.webhook.sources import Source


#: Seconds between two progress lines, so that thousands of batches do not flood the log.
_SECONDS_BETWEEN_LINES = 10.0


class WebhookIngestOperator(CheckedArguments, MapLabel, BaseOperator):
    """
    Push records to a table of a webhook connection, in batches.

    Accepted batches are stored in Airflow's task state (Airflow 3.3 or later). A retry verifies that the source still
    starts with these records, and continues after them. A batch without a response is sent again, and its records are
    counted in ``maybe_twice``. See "Webhooks" in the documentation.

    Returns an :class:`~airflow_provider_datapipe.webhook.delivery.IngestResult`, also pushed if the task fails.

    :param records: an object (dict), or a list of objects, such as the output of another task; also as JSON text. A
        single object is sent unchanged. Alternatively, set ``source``. (templated)
    :param source: path of a JSON Lines or Parquet file, local or in object storage (``s3://…``). (templated)
    :param source_format: ``jsonl`` or ``parquet``; None to derive it from the file name. (templated)
    :param source_conn_id: the Airflow connection of the object storage. (templated)
    :param endpoint: the end of the table's address, if the connection contains only its beginning. (templated)
    :param batch_size: number of records per request, as an array; with 1, each request contains one record and no
        array, as tables in Packed mode require.
    :param max_batch_bytes: maximum size of a request in bytes.
    :param if_changed: policy if the source no longer starts with the records of an earlier try: ``fail``, or
        ``restart``, which sends all records.
    :param webhook_conn_id: the :ref:`webhook connection <webhook-connection>`. (templated)

    .. seealso:: :ref:`Webhook ingestion <interface-webhooks>`.
    """

    template_fields: Sequence[str] = (
        "webhook_conn_id",
        "records",
        "source",
        "source_format",
        "source_conn_id",
        "endpoint",
    )
    template_fields_renderers = {"records": "json"}  # noqa: RUF012 - as Airflow's
    ui_color = "#d7efe9"

    def __init__(
        self,
        *,
        records: Any = None,
        source: str | None = None,
        source_format: Literal["jsonl", "parquet"] | None = None,
        source_conn_id: str | None = None,
        endpoint: str | None = None,
        batch_size: int = 1000,
        max_batch_bytes: int = 1_000_000,
        if_changed: Literal["fail", "restart"] = "fail",
        webhook_conn_id: str = "datapipe_webhook_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(records=records, source=source)
        if source is None and not (source_format is None and source_conn_id is None):
            raise ValueError("source_format and source_conn_id require source")
        for name, limit in (("batch_size", batch_size), ("max_batch_bytes", max_batch_bytes)):
            if limit < 1:
                raise ValueError(f"{name} must be 1 or more, not {limit}")
        self.webhook_conn_id = webhook_conn_id
        self.records = records
        self.source = source
        self.source_format = source_format
        self.source_conn_id = source_conn_id
        self.endpoint = endpoint
        self.batch_size = batch_size
        self.max_batch_bytes = max_batch_bytes
        self.if_changed = if_changed
        self._delivery: Delivery | None = None

    def execute(self, context: Context) -> IngestResult:
        """
        Send the records that no earlier try has sent.

        :raises IngestError: if not all records were accepted.
        :raises SourceChangedError: if the source no longer starts with the records of an earlier try.
        :raises DatapipeError: if the connection or the source is not usable.
        """
        from airflow_provider_datapipe.hooks.webhook import WebhookIngestHook
        from airflow_provider_datapipe.runs.task_state import task_state_of
        from airflow_provider_datapipe.webhook.batches import Limits
        from airflow_provider_datapipe.webhook.delivery import Delivery, SourceChangedError, described

        source, batch_size = self._open()
        hook = WebhookIngestHook(self.webhook_conn_id)
        delivery = Delivery(
            source, Limits(batch_size, self.max_batch_bytes), hook.sending(self.endpoint), task_state_of(context)
        )
        self._delivery = delivery
        next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        def log_progress(progress: Progress) -> None:
            nonlocal next_line
            if time.monotonic() >= next_line:
                self.log.info("%s", described(progress))
                next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        complete = False
        try:
            if resumed_from := delivery.resume():
                self.log.info("Continuing after the first %s records, which an earlier try sent.", f"{resumed_from:,}")
            try:
                result = delivery.run(log_progress)
            except SourceChangedError as changed:
                if self.if_changed != "restart":
                    raise
                self.log.warning("%s Sending all records from the beginning.", changed)
                delivery.restart()
                result = delivery.run(log_progress)
            complete = True
        finally:
            hook.close()
            self.log.info("%s", described(delivery.progress))
            # Push the progress also if the delivery fails, because downstream tasks can use it.
            if not complete:
                push_result(self, context, delivery.result())
        if result["maybe_twice"]:
            duplicates = f"{result['maybe_twice']:,}"
            self.log.warning("%s of the records may be duplicated, because a response was lost.", duplicates)
        if result["rows"] not in (None, result["records"]):
            self.log.warning(
                "The service reported %s rows for %s records. A table in Packed mode needs batch_size=1.",
                f"{result['rows']:,}",
                f"{result['records']:,}",
            )
        return result

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the source and the table of the records for OpenLineage."""
        from airflow_provider_datapipe.lineage.webhooks import lineage_of_delivery

        accepted = None if self._delivery is None else self._delivery.result()
        return lineage_of_delivery(self.webhook_conn_id, self.endpoint, self.source, accepted)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the source, the table and the number of records for OpenLineage."""
        return self.get_openlineage_facets_on_start()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Return the source, the table and the number of records before the failure for OpenLineage."""
        return self.get_openlineage_facets_on_start()

    def _open(self) -> tuple[Source, int]:
        """Return a function that opens the source, and the number of records per request."""
        from airflow_provider_datapipe.webhook.sources import given

        if self.source is None:
            records = self._records()
            if isinstance(records, Mapping):
                return partial(given, [records]), 1
            return partial(given, records), self.batch_size
        return self._file(self.source), self.batch_size

    def _records(self) -> Mapping[str, Any] | Iterable[Any]:
        from airflow_provider_datapipe.api.canonical import NotCanonicalError, parse

        records = self.records
        if isinstance(records, str):
            try:
                records = parse(records)
            except NotCanonicalError as error:
                raise ValueError(
                    f"records was rendered to invalid text ({error}): pass the output of a task directly, or use tojson"
                ) from None
        # Not an iterator, because the records may be read again from the beginning.
        if not isinstance(records, Mapping | Sequence) or isinstance(records, str | bytes):
            kind = type(records).__name__
            raise ValueError(f"records must be an object or a list of objects, not {kind}")  # noqa: TRY004 - ValueError, as for every invalid argument
        return records

    def _file(self, name: str) -> Source:
        from airflow.sdk import ObjectStoragePath

        from airflow_provider_datapipe.webhook.sources import FORMATS, json_lines, parquet

        if not name or name == "None":
            raise ValueError("source is empty: check the result of its template")
        path = ObjectStoragePath(name, conn_id=self.source_conn_id)
        kind = self.source_format or FORMATS.get(path.suffix.lower())
        if kind not in ("jsonl", "parquet"):
            raise ValueError(
                f"the name of {path.name} does not show its format: set source_format to 'jsonl' or 'parquet'"
            )
        read = json_lines if kind == "jsonl" else parquet
        return partial(read, partial(path.open, "rb"), path.name)
