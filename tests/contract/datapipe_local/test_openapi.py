"""Tests of the OpenAPI document against the interface, and of the service against the document."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.interface_table import ROWS, SCHEMAS, Row
from tests.support.local_service import LocalService

HERE = Path(__file__).parent / "openapi"
REPOSITORY = Path(__file__).parents[3]
#: Minimum number of generated requests in total, and number for each operation.
EXAMPLES = 2000
EXAMPLES_EACH = 10
#: Fields that only the descriptions of the interface contain, not its schemas.
BEYOND = {
    "EltStreamDto": {"sync_interval"},
    "OrchestrationDto": {"cron_schedule"},
    "QueryPreviewStatusResponseDto": {"query_execution_id"},
    "TransformDto": {"cron_expression", "rebuild_trigger"},
    "TransformCreateRequest": {"cron_expression"},
    "TransformUpdateRequest": {"cron_expression"},
}
#: Schemas with other names in the document, which has one name for each concept.
NAMES = {
    "AvailableReferenceDto": "TransformParameterDto",
    "AvailableReferencesResponseDto": "ListDto_TransformParameterDto_",
    "ConnectionBridgeCreateDto": "ConnectionBridgeCreate",
    "CreateCustomReportsRequestDto": "CustomReportsRequest",
    "CreateReverseEtlSyncRequestDto": "ReverseEtlSyncCreateRequest",
    "CustomReportCreateItemDto": "CustomReport",
    "EltStreamFullRefreshRequestDto": "FullRefreshRequest",
    "EltStreamRequestRunConflictResponseDto": "RunConflictDto",
    "EltStreamRequestRunResponseDto": "RequestRunDto",
    "EltSyncAddSourceStreamsRequestDto": "SourceStreamsRequest",
    "EltSyncAttachOrchestrationRequestDto": "AttachRequest",
    "EltSyncCreateRequestDto": "EltSyncCreateRequest",
    "EltSyncUpdateRequestDto": "EltSyncUpdateRequest",
    "QueryPreviewCreateRequestDto": "QueryPreviewRequest",
    "RetryReverseEtlSyncRecordErrorsRequestDto": "RetryRecordsRequest",
    "ReverseEtlAvailableOperationsDto": "ListDto_ReverseEtlAvailableOperationDto_",
    "ReverseEtlDestinationSchemaDto": "ListDto_ReverseEtlDestinationPropertyDto_",
    "ReverseEtlObjectTypesDto": "ListDto_ReverseEtlObjectTypeDto_",
    "ReverseEtlSettingsRequestDto": "SettingsRequest",
    "ReverseEtlSyncFailedRecordErrorsDto": "ListDto_ReverseEtlSyncRecordErrorDto_",
    "ReverseEtlSyncMappingRequestDto": "MappingRequest",
    "ReverseEtlSyncOperationRequestDto": "OperationRequest",
    "ReverseEtlSyncRequestRunConflictResponseDto": "RunConflictDto",
    "ReverseEtlSyncRequestRunResponseDto": "RequestRunDto",
    "SourceStreamDto": "SourceStream",
    "TransformAttachOrchestrationRequestDto": "AttachRequest",
    "TransformBulkCreateRequestDto": "TransformBulkRequest",
    "TransformCreateRequestDto": "TransformCreateRequest",
    "TransformPublishRequestDto": "PublishRequest",
    "TransformSchemaDto": "ListDto_TransformSchemaFieldDto_",
    "TransformUpdateRequestDto": "TransformUpdateRequest",
    "UpdateReverseEtlSyncRequestDto": "ReverseEtlSyncUpdateRequest",
}

#: Optional fields that this service never sends.
NEVER_SENT = {"IntegrationDto": {"min_required_plan"}}
#: Parameters of lists with pages, also if the interface does not declare them.
OF_A_PAGE = {"starting_after": False, "limit": False}

Json = dict[str, Any]


def nameless(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def operation_of(document: Json, row: Row) -> Json:
    paths = {nameless(path): operations for path, operations in document["paths"].items()}
    operation: Json = paths[nameless(row.path)][row.method.lower()]
    return operation


def resolved(document: Json, schema: Json) -> Json:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def values_in(document: Json, schema: Json) -> set[str]:
    kinds = [resolved(document, kind) for kind in schema.get("anyOf", [schema])]
    return {value for kind in kinds for value in [*kind.get("enum", []), *([kind["const"]] if "const" in kind else [])]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_document_contains_each_endpoint(document: Json, row: Row) -> None:
    operation = operation_of(document, row)
    query = {p["name"]: p["required"] for p in operation.get("parameters", []) if p["in"] == "query"}
    assert query == row.query | (OF_A_PAGE if row.success == "page" else {})
    assert ("requestBody" in operation) or row.body == "none"
    assert {str(status) for status in row.errors} <= operation["responses"].keys()
    # Every route can respond with these.
    assert {"400", "401"} <= operation["responses"].keys()
    success = [status for status in operation["responses"] if status.startswith("2")]
    assert len(success) == 1
    content = operation["responses"][success[0]].get("content")
    if row.success == "nothing":
        assert (success, content) == (["204"], None)
    else:
        schema = resolved(document, content["application/json"]["schema"])
        assert schema, "an answer has a schema"
        if row.success == "page":
            assert set(schema["required"]) == {"data", "has_more", "hasMore"}
            assert set(schema["properties"]) == {*schema["required"], "next_cursor", "nextCursor"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_document_contains_each_schema(document: Json, name: str) -> None:
    ours = NAMES.get(name, name)
    schema = document["components"]["schemas"][ours]
    words = [re.fullmatch(r"(\w+)(!?)=?(.*)", word) for word in SCHEMAS[name].split()]
    fields = {word[1]: (word[2] == "!", word[3]) for word in words if word}
    assert set(schema["properties"]) == (fields.keys() | BEYOND.get(ours, set())) - NEVER_SENT.get(ours, set())
    required = {field for field, (needed, _) in fields.items() if needed}
    assert set(schema.get("required", [])) - BEYOND.get(ours, set()) == required
    for field, (_, values) in fields.items():
        if values:
            assert values_in(document, schema["properties"][field]) - {None} == set(values.split("|")), field
    assert schema.get("additionalProperties") is False


def test_every_operation_requires_the_key(document: Json) -> None:
    interface = {nameless(row.path) for row in ROWS}
    operations = [
        operation
        for path, each in document["paths"].items()
        if nameless(path) in interface
        for operation in each.values()
    ]
    assert len(operations) == len(ROWS)
    assert all(operation["security"] == [{"ApiKey": []}] for operation in operations)


@pytest.mark.slow
def test_schemathesis_finds_no_violation(controlled: LocalService, tmp_path: Path) -> None:
    controlled.reset()
    report = tmp_path / "report.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{controlled.base_url}/openapi.json", "-H", f"x-api-key: {controlled.api_key}"),
        *("--checks", "all", "--max-examples", str(EXAMPLES_EACH), "--generation-database", "none", "--no-color"),
        # A fixed seed, so that a new finding comes from a change of the code.
        *("--seed", "6"),
        *("--report", "json", "--report-json-path", str(report)),
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.contract.datapipe_local.openapi.hooks"}
    done = subprocess.run(  # noqa: S603 - the program of this project
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    generated = re.search(r"(\d[\d,]*) generated", done.stdout)
    assert generated, done.stdout[-2_000:]
    assert int(generated[1].replace(",", "")) >= EXAMPLES
    assert json.loads(report.read_text(encoding="utf-8"))
    assert "Traceback" not in controlled.log
