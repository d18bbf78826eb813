"""Conversion of lineage to OpenLineage facets. The only module that imports the OpenLineage client at module level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    datasource_dataset,
    error_message_run,
    external_query_run,
    output_statistics_output_dataset,
    schema_dataset,
    sql_job,
)

if TYPE_CHECKING:
    from airflow_provider_datapipe.lineage.model import Dataset, Lineage
    from airflow_provider_datapipe.runs.models import RunResult

#: Name and schema of the custom facet; the schema is in ``service_runs.schema.json``.
FACET = "datapipe_runs"
SCHEMA_URL = "urn:airflow-provider-datapipe:openlineage:1-0-0:DatapipeRunsRunFacet.json#/$defs/DatapipeRunsRunFacet"
_LONGEST_ERROR = 2000
#: Facet fields for the fields of a run result.
_OF_A_RUN = {
    "kind": "kind",
    "resource_id": "resourceId",
    "name": "name",
    "run_id": "runId",
    "status": "status",
    "outcome": "outcome",
    "started_at": "startedAt",
    "finished_at": "finishedAt",
    "rows_synced": "rowsSynced",
    "rows_failed": "rowsFailed",
    "attached": "attached",
    "error": "error",
}


@define
class DatapipeRunsRunFacet(RunFacet):
    """
    Custom run facet with the service runs of a task.

    :param service: namespace of the service.
    :param runs: the runs; unknown fields are omitted.
    """

    service: str
    runs: list[dict[str, Any]]

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA_URL


def operator_lineage(lineage: Lineage, service: str) -> OperatorLineage[Any, Any]:
    """
    Convert lineage to the format of Airflow's OpenLineage provider.

    :param lineage: the lineage.
    :param service: namespace of the service.
    """
    run_facets: dict[str, RunFacet] = {}
    job_facets: dict[str, JobFacet] = {}
    if lineage.runs:
        run_facets[FACET] = DatapipeRunsRunFacet(service, [_run(result) for result in lineage.runs])
    if errors := list(dict.fromkeys(result["error"] for result in lineage.runs if result["error"])):
        # Airflow's OpenLineage provider replaces this facet by the task's exception, if it has one.
        run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=" | ".join(errors)[:_LONGEST_ERROR], programmingLanguage="SQL" if lineage.sql else "unknown"
        )
    if lineage.query_id is not None:
        run_facets["externalQuery"] = external_query_run.ExternalQueryRunFacet(lineage.query_id, service)
    if lineage.sql is not None:
        job_facets["sql"] = sql_job.SQLJobFacet(query=lineage.sql)
    return OperatorLineage(
        inputs=[
            InputDataset(namespace=each.name.namespace, name=each.name.name, facets=_facets(each))
            for each in lineage.inputs
        ],
        outputs=[
            OutputDataset(
                namespace=each.name.namespace,
                name=each.name.name,
                facets=_facets(each),
                outputFacets=_statistics(each),
            )
            for each in lineage.outputs
        ],
        run_facets=run_facets,
        job_facets=job_facets,
    )


def _run(result: RunResult) -> dict[str, Any]:
    fields: Iterable[tuple[str, Any]] = ((name, result.get(key)) for key, name in _OF_A_RUN.items())
    return {name: value for name, value in fields if value is not None}


def _facets(dataset: Dataset) -> dict[str, DatasetFacet]:
    facets: dict[str, DatasetFacet] = {}
    if dataset.integration is not None:
        facets["dataSource"] = datasource_dataset.DatasourceDatasetFacet(
            name=dataset.integration, uri=dataset.name.namespace
        )
    if dataset.columns:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(
            fields=[
                schema_dataset.SchemaDatasetFacetFields(name=column.name, type=column.type)
                for column in dataset.columns
            ]
        )
    if dataset.made_from:
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={
                column: column_lineage_dataset.Fields(
                    inputFields=[
                        column_lineage_dataset.InputField(namespace=name.namespace, name=name.name, field=field)
                        for name, field in origins
                    ]
                )
                for column, origins in dataset.made_from.items()
            }
        )
    return facets


def _statistics(dataset: Dataset) -> dict[str, OutputDatasetFacet]:
    if dataset.rows is None:
        return {}
    return {
        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=dataset.rows)
    }
