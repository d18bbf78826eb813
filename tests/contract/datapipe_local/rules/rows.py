"""Rows of the tables "States and transitions", "Errors" and "Limits" of the interface, by the name of their test."""

from __future__ import annotations

#: "States and transitions": the test's name, the resource, the trigger.
TRANSITIONS = {
    "test_connection_bridge_create": "Connection bridge: create",
    "test_elt_sync_enable": "ELT sync: POST enable",
    "test_elt_sync_disable": "ELT sync: POST disable",
    "test_elt_sync_attach_orchestration": "ELT sync: attach orchestration",
    "test_elt_sync_detach_orchestration": "ELT sync: detach orchestration",
    "test_elt_sync_delete": "ELT sync: delete",
    "test_elt_stream_request_full_refresh": "ELT stream: request_full_refresh",
    "test_elt_stream_cancel_full_refresh": "ELT stream: cancel_full_refresh",
    "test_elt_stream_request_run": "ELT stream: request_run",
    "test_elt_stream_set_sync_interval": "ELT stream: set_sync_interval",
    "test_elt_stream_clear_sync_interval": "ELT stream: clear_sync_interval",
    "test_transform_create_with_publish": "Transform: create with publish=true",
    "test_transform_publish": "Transform: publish",
    "test_transform_update_with_publish": "Transform: update with publish=true",
    "test_transform_rematerialize": "Transform: rematerialize",
    "test_transform_attach_orchestration": "Transform: attach orchestration",
    "test_transform_detach_orchestration": "Transform: detach orchestration",
    "test_transform_delete": "Transform: delete",
    "test_orchestration_delete": "Orchestration: delete",
    "test_orchestration_request_run": "Orchestration: request_run",
    "test_reverse_etl_sync_create": "Reverse ETL sync: create",
    "test_reverse_etl_sync_activate": "Reverse ETL sync: activate",
    "test_reverse_etl_sync_deactivate": "Reverse ETL sync: deactivate",
    "test_reverse_etl_sync_update": "Reverse ETL sync: update",
    "test_reverse_etl_sync_request_run": "Reverse ETL sync: request_run",
    "test_reverse_etl_failed_records_retry": "Reverse ETL failed records: retry / retry_all",
    "test_query_preview_create": "Query preview: create",
}
#: "Errors": the test's name, the status and where.
ERRORS = {
    "test_error_stream_of_a_sync_that_is_not_running": "400: stream request_run / request_full_refresh",
    "test_error_invalid_cron_expression": "400: stream set_sync_interval, orchestration delete, transform detach",
    "test_error_invalid_run_id": "400: stream and sync run ids",
    "test_error_invalid_reverse_etl_sync": "400: reverse ETL create/update",
    "test_error_reverse_etl_sync_not_eligible": "400: reverse ETL request_run",
    "test_error_attach_transform_not_published": "400: transform attach orchestration",
    "test_error_detach_transform_not_a_published_table": "400: transform detach with cron_expression",
    "test_error_add_source_streams_invalid": "400: add source streams",
    "test_error_not_found": "404: resource lookups",
    "test_error_maximum_number_of_syncs": "409: ELT sync create",
    "test_error_stream_running_or_scheduled": "409: ELT stream request_run",
    "test_error_reverse_etl_sync_has_an_active_run": "409: reverse ETL request_run",
    "test_error_custom_reports_one_by_one": "custom report creation: per-item failures inside the 201",
}
#: "Limits": the test's name, the limit.
LIMITS = {
    "test_limit_page_size": "Page size: 1 to 100, default 10",
    "test_limit_connection_bridge_lifetime": "Connection bridge lifetime: 86400 seconds",
    "test_limit_bulk_transform_creation": "Bulk transform creation: 50 transforms per request",
    "test_limit_stream_run_history": "Stream run history: last 3 months",
    "test_limit_state_length": "state length: max 255 characters",
    "test_limit_label_length": "label length: min 1 character",
    "test_limit_syncs_per_connection": "Syncs per connection: a maximum exists",
}
