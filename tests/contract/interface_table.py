"""Endpoints and schemas of the management interface as data, written independently of the code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

REQUIRED = True
OPTIONAL = False


@dataclass(frozen=True)
class Row:
    """
    Row of the table.

    :param query: query parameters; True if required.
    :param success: content of a successful response.
    :param errors: the statuses that the row names.
    """

    method: str
    path: str
    query: dict[str, bool] = field(default_factory=dict)
    body: Literal["none", "optional", "required"] = "none"
    success: Literal["page", "list", "one", "nothing"] = "one"
    errors: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


LIST = {"starting_after": OPTIONAL, "limit": OPTIONAL}
SORTED_LIST = LIST | {"sort_direction": OPTIONAL}
OF_SYNC = {"reverse_etl_sync_id": REQUIRED}

ROWS = (
    Row("GET", "/connection_bridges", success="list"),
    Row("POST", "/connection_bridges", body="required"),
    Row("GET", "/connections", LIST, success="page"),
    Row("DELETE", "/connections/{id}", success="nothing"),
    Row("GET", "/connections/{id}/settings"),
    Row("POST", "/custom_reports", body="required"),
    Row("GET", "/elt_streams", {"elt_sync_id": OPTIONAL} | LIST, success="page"),
    Row("GET", "/elt_streams/{id}", errors=(404,)),
    Row("DELETE", "/elt_streams/{id}", success="nothing", errors=(404,)),
    Row("POST", "/elt_streams/{id}/request_run", errors=(400, 404, 409)),
    Row("POST", "/elt_streams/{id}/request_full_refresh", body="optional", success="nothing", errors=(400, 404)),
    Row("POST", "/elt_streams/{id}/cancel_full_refresh", success="nothing", errors=(404,)),
    Row("POST", "/elt_streams/{id}/set_sync_interval", body="required", errors=(400, 404)),
    Row("POST", "/elt_streams/{id}/clear_sync_interval", success="nothing", errors=(404,)),
    Row("GET", "/elt_stream_runs/{id}", errors=(400, 404)),
    Row("GET", "/elt_stream_runs", {"elt_stream_id": REQUIRED} | SORTED_LIST, success="page", errors=(404,)),
    Row("POST", "/elt_syncs/{id}/enable", success="nothing"),
    Row("POST", "/elt_syncs/{id}/disable", success="nothing"),
    Row("GET", "/elt_syncs", LIST | {"connection_id": OPTIONAL}, success="page"),
    Row("POST", "/elt_syncs", body="required", errors=(409,)),
    Row("POST", "/elt_syncs/{id}", body="required"),
    Row("GET", "/elt_syncs/{id}", errors=(404,)),
    Row("DELETE", "/elt_syncs/{id}", {"removeDataReferences": OPTIONAL}, success="nothing"),
    Row("POST", "/elt_syncs/{id}/orchestration", body="required", errors=(404,)),
    Row("DELETE", "/elt_syncs/{id}/orchestration", errors=(404,)),
    Row("GET", "/elt_syncs/{id}/available_source_streams", success="page"),
    Row("POST", "/elt_syncs/{id}/source_streams", body="required", errors=(400,)),
    Row("GET", "/elt_syncs/{id}/status"),
    Row("GET", "/integrations", {"ability": OPTIONAL}, success="page"),
    Row("GET", "/orchestration_runs", LIST | {"orchestration_id": OPTIONAL}, success="page"),
    Row("GET", "/orchestration_runs/{id}", errors=(404,)),
    Row("GET", "/orchestrations", LIST, success="page"),
    Row("POST", "/orchestrations", body="required"),
    Row("GET", "/orchestrations/{id}", errors=(404,)),
    Row("POST", "/orchestrations/{id}", body="required", errors=(404,)),
    Row("DELETE", "/orchestrations/{id}", {"cron_schedule": REQUIRED}, success="nothing", errors=(400, 404)),
    Row("POST", "/orchestrations/{id}/request_run", errors=(404,)),
    Row("GET", "/reverse_etl_failed_records", OF_SYNC | {"limit": OPTIONAL}, errors=(404,)),
    Row("GET", "/reverse_etl_failed_records/count", OF_SYNC, errors=(404,)),
    Row("POST", "/reverse_etl_failed_records/retry", OF_SYNC, body="required", success="nothing", errors=(404,)),
    Row("POST", "/reverse_etl_failed_records/retry_all", OF_SYNC, success="nothing", errors=(404,)),
    Row("GET", "/reverse_etl_sync_runs/{id}", errors=(400, 404)),
    Row("GET", "/reverse_etl_sync_runs", OF_SYNC | SORTED_LIST, success="page", errors=(404,)),
    Row("GET", "/reverse_etl_syncs", LIST | {"destination_connection_id": OPTIONAL}, success="page"),
    Row("POST", "/reverse_etl_syncs", body="required", errors=(400,)),
    Row(
        "GET",
        "/reverse_etl_syncs/destination_schema",
        {"connection_id": REQUIRED, "object_type_id": REQUIRED, "operation_mode": REQUIRED, "source_id": REQUIRED},
    ),
    Row("GET", "/reverse_etl_syncs/available_operations", {"connection_id": REQUIRED, "object_type_id": REQUIRED}),
    Row("GET", "/reverse_etl_syncs/object_types", {"connection_id": REQUIRED}),
    Row(
        "POST",
        "/reverse_etl_syncs/settings_schema",
        {"connection_id": REQUIRED, "object_type": REQUIRED},
        body="optional",
    ),
    Row("GET", "/reverse_etl_syncs/{id}", errors=(404,)),
    Row("POST", "/reverse_etl_syncs/{id}", body="required", errors=(400, 404)),
    Row("DELETE", "/reverse_etl_syncs/{id}", success="nothing", errors=(404,)),
    Row("POST", "/reverse_etl_syncs/{id}/activate", success="nothing", errors=(404,)),
    Row("POST", "/reverse_etl_syncs/{id}/deactivate", success="nothing", errors=(404,)),
    Row("POST", "/reverse_etl_syncs/{id}/request_run", errors=(400, 409)),
    Row("GET", "/transforms", LIST | {"status": OPTIONAL, "name": OPTIONAL, "folder_path": OPTIONAL}, success="page"),
    Row("POST", "/transforms", body="required"),
    Row("GET", "/transforms/available_references"),
    Row("GET", "/transforms/{id}", errors=(404,)),
    Row("PATCH", "/transforms/{id}", body="required", errors=(404,)),
    Row("DELETE", "/transforms/{id}", success="nothing"),
    Row("GET", "/transforms/{id}/schema", errors=(404,)),
    Row("POST", "/transforms/{id}/orchestration", body="required", errors=(400, 404)),
    Row("DELETE", "/transforms/{id}/orchestration", {"cron_expression": OPTIONAL}, errors=(400, 404)),
    Row("POST", "/transforms/bulk", body="required"),
    Row("GET", "/transforms/{id}/versions", LIST, success="page", errors=(404,)),
    Row("POST", "/transforms/{id}/publish", body="required", errors=(404,)),
    Row("POST", "/transforms/{id}/rematerialize", body="required", errors=(404,)),
    Row("POST", "/transforms/query_previews", body="required"),
    Row("GET", "/transforms/query_previews/{queryExecutionId}/status"),
    Row("GET", "/transforms/query_previews/{queryExecutionId}/result"),
)

#: Schemas and their fields: ``!`` marks required fields, ``=`` the values of an enum. All pages have the same form.
_SCHEMAS = """\
ConnectionBridgeCreateDto: redirect_uri! integration_id! connection_id state label!
CustomReportCreateItemDto: elt_sync_id! name! query!
CreateCustomReportsRequestDto: reports! add_as_source_stream
CustomReportCreateErrorDto:
  error_code!=connection_error|connection_lost_access|invalid_query|not_found|unknown|unsupported_integration message!
CustomReportCreateResultDto: elt_sync_id! name! source_stream_name error
CreateCustomReportsResponseDto: results!
EltStreamDto: id! elt_sync_id! name! incremental_primary_key_name incremental_pointer_id full_sync_at_midnight!
  full_sync_always! protected_from_full_sync! created_at! updated_at! excluded_substreams! enabled_history_table!
ErrorDto: error_code! message!
EltStreamRequestRunResponseDto: status_url!
EltStreamRequestRunConflictResponseDto: error_code! message! active_run_id
EltStreamFullRefreshRequestDto: reset_history_table
EltStreamRunDto: id! elt_sync_id! elt_stream_id! started_at! finished_at
  status=CHUNK_COMPLETED|COMPLETED|FAILED|RUNNING rows_synced
EltSyncDto: account_id! config created_at! destination_connection_id! destination_integration_id!
  destination_schema_name enabled! id! orchestration_workflow_id source_connection_id! source_integration_id!
  source_streams start_date status!=NOT_STARTED|RUNNING|FAILED|PAUSED sync_interval updated_at!
EltSyncCreateRequestDto: connection_id! destination_schema_name! elt_settings sync_interval! start_date
EltSyncUpdateRequestDto: elt_settings sync_interval
EltSyncAttachOrchestrationRequestDto: orchestration_workflow_id!
RetirementDetails: in_favor_of removal_date details link
AvailableStreamDto: name! is_selectable preselect sub_streams retired! retirement_details
SourceStreamDto: name! incremental_pointer_id excluded_columns hashed_columns full_sync_always full_sync_at_midnight
  protected_from_full_sync excluded_substreams enabled_history_table
EltSyncAddSourceStreamsRequestDto: source_streams
EltSyncAddSourceStreamsResponseDto: source_streams!
SourceStreamSnapshotDto: bytes_synced! error_message estimated_total_count finished_at
  full_sync_trigger=ALWAYS_FULL|ERROR|INITIAL_SYNC|LOOKBACK|MIDNIGHT|MIGRATION|NONE|SCHEMA_CHANGE|USER
  operation_mode=APPEND|FULL|INCREMENTAL records_synced retry_attempt started_at
  status=COMPLETED|DELAYED|FAILED|RETRYING|RUNNING|SCHEDULED details
SourceStreamSnapshotStatesDto: name! active_sync latest_sync
EltSyncStatusDto: elt_sync_id! source_streams!
IntegrationDto: id! name! min_required_plan supports_start_date! abilities!
OrchestrationRunDto: id! orchestration_id! status!=CANCELED|COMPLETED|FAILED|NOT_STARTED|RUNNING due_at! started_at
  finished_at
OrchestrationDto: id! name!
ReverseEtlSyncRecordErrorDto: sync_id! record_id! error!
ReverseEtlSyncFailedRecordErrorsDto: data!
ReverseEtlSyncFailedRecordCountDto: count!
RetryReverseEtlSyncRecordErrorsRequestDto: record_ids!
ReverseEtlSyncRunDto: id! reverse_etl_sync_id! started_at! finished_at status!=COMPLETED|FAILED|RUNNING|SCHEDULED
  total_rows distinct_rows new_rows synced_rows failed_rows error
ReverseEtlSyncMappingDto: source_property_id! destination_property_id! primary_key
ReverseEtlSyncOperationDto: mode!=insert|mirror|update|upsert mappings!
ReverseEtlSyncDto: id! enabled! source_type!=RawView|Transform source_id! transform_id destination_connection_id!
  destination_integration_id! object_type_id! sync_interval orchestration_workflow_id operation created_at!
  updated_at!
ReverseEtlSyncMappingRequestDto: source_property_id! destination_property_id! primary_key
ReverseEtlSyncOperationRequestDto: mode!=insert|mirror|update|upsert mappings!
CreateReverseEtlSyncRequestDto: destination_connection_id! source_id! object_type_id! operation! sync_interval
  orchestration_workflow_id settings
ReverseEtlSyncWithSettingsDto: id! enabled! source_type!=RawView|Transform source_id! transform_id
  destination_connection_id! destination_integration_id! object_type_id! sync_interval orchestration_workflow_id
  operation created_at! updated_at! settings!
ReverseEtlDestinationPropertyDto: id! property_name! property_type! readonly! is_required! is_primary_key!
ReverseEtlDestinationSchemaDto: data!
ReverseEtlAvailableOperationDto: type!=association|primary mode!=insert|mirror|update|upsert primary_key_required!
ReverseEtlAvailableOperationsDto: data!
ReverseEtlObjectTypeDto: id! name! type! associations!
ReverseEtlObjectTypesDto: data!
ReverseEtlSettingsRequestDto: partial_settings
UpdateReverseEtlSyncRequestDto: object_type_id! operation! sync_interval orchestration_workflow_id settings
ReverseEtlSyncRequestRunResponseDto: status_url!
ReverseEtlSyncRequestRunConflictResponseDto: error_code! message! active_run_id
TransformParameterDto: weld_tag! type!=raw_view|model_view|materialized_table dw_item_id!
TransformDto: id! name! folder_path! status!=draft|published materialization!=view|table sql_template! parameters!
  documentation materialization_status=running|completed|failed materialization_error orchestration_workflow_id
  created_at! updated_at!
AvailableReferenceDto: weld_tag! type!=raw_view|model_view|materialized_table dw_item_id!
AvailableReferencesResponseDto: data!
TransformSchemaFieldDto: name! type! nullable!
TransformSchemaDto: data!
TransformCreateRequestDto: name! folder_path sql_template! materialization=view|table documentation publish
  wait_for_completion
TransformUpdateRequestDto: name folder_path sql_template materialization=view|table documentation publish
  wait_for_completion
TransformAttachOrchestrationRequestDto: orchestration_workflow_id!
TransformBulkCreateRequestDto: transforms!
TransformBulkResultItemDto: name! success! id error
TransformBulkCreateResponseDto: results!
TransformVersionDto: id! sql_template! parameters! is_published! user_id created_at!
TransformPublishRequestDto: version_id materialization=view|table folder_path name wait_for_completion
QueryPreviewCreateRequestDto: sql_template!
QueryPreviewCreateResponseDto: query_execution_id! dw_sql!
QueryPreviewStatusResponseDto: status!=RUNNING|DONE|FAILED error
QueryPreviewResultResponseDto: rows! num_rows_total!
"""
#: Fields of each schema by its name. Further lines of a schema are indented.
SCHEMAS = {
    name: fields for name, _, fields in (entry.partition(":") for entry in re.split(r"\n(?=\w)", _SCHEMAS.strip()))
}
