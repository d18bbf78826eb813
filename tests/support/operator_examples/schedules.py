"""Examples of the operators that pause schedules, each alone, with the snapshot of another task as input."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.schedule import (
    ScheduleNoteOperator,
    SchedulePutBackOperator,
    ScheduleTakeOffOperator,
)
from tests.support.operator_examples.example import Example

NEVER = "11 4 29 2 *"
USES = ("note", "own", "back")
_ATTACHED = "orchestration_workflow_id"


def _elt(use: str, **more: Any) -> dict[str, Any]:
    off = use == "back"
    return {
        "id": f"schedule.elt.{use}",
        "connection_id": "schedule_files",
        "destination_schema_name": f"schedule_{use}",
        "sync_interval": NEVER if off else "0 3 * * *",
        "source_streams": [
            {
                "id": f"schedule.elt.{use}.rows",
                "name": "rows",
                "file": "rows.csv",
                "sync_interval": NEVER if off else "0 5 * * *",
            }
        ],
        **({} if off else {_ATTACHED: "schedule.other"}),
    } | more


def _transform(use: str, *, attached: bool) -> dict[str, Any]:
    off = use == "back"
    name = f"{use}_attached" if attached else use
    return {
        "id": f"schedule.transform.{name}",
        "name": name,
        "folder_path": "schedules",
        "materialization": "table",
        "sql_template": "SELECT 1 AS id",
        "publish": True,
        "cron_expression": NEVER if off else "0 4 * * *",
        **({_ATTACHED: "schedule.other"} if attached and not off else {}),
    }


def _reverse(use: str) -> dict[str, Any]:
    return {
        "id": f"schedule.reverse.{use}",
        "source_id": "schedule.people",
        "destination_connection_id": "out",
        "object_type_id": f"schedule_{use}",
        "sync_interval": NEVER if use == "back" else "0 5 * * *",
        "operation": {
            "mode": "upsert",
            "mappings": [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}],
        },
    }


SEED: dict[str, Any] = {
    "connections": [
        {"id": "schedule_files", "integration_id": "files", "label": "Scheduled", "settings": {"path": "{folder}"}}
    ],
    "orchestrations": [
        {"id": "schedule.other", "name": "Other", "cron_schedule": "0 1 * * *"},
        *(
            {
                "id": f"schedule.orchestration.{use}",
                "name": f"Scheduled {use}",
                "cron_schedule": NEVER if use == "back" else "0 2 * * *",
            }
            for use in USES
        ),
    ],
    "elt_syncs": [
        *(_elt(use) for use in USES),
        _elt("pause"),
        _elt("resume", enabled=False),
    ],
    "transforms": [
        {
            "id": "schedule.people",
            "name": "people",
            "folder_path": "schedules",
            "publish": True,
            "sql_template": "SELECT 1 AS id",
        },
        *(_transform(use, attached=attached) for use in USES for attached in (False, True)),
    ],
    "reverse_etl_syncs": [_reverse(use) for use in USES],
}


def _note(resource: str, which: str, original: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource": resource,
        "id": which,
        "name": which,
        "round": "one",
        "original": original,
        "held": held,
    }


def _notes(use: str) -> dict[str, dict[str, Any]]:
    stream = f"sync_interval of stream schedule.elt.{use}.rows"
    attached: dict[str, Any] = {_ATTACHED: "schedule.other"}
    free: dict[str, Any] = {_ATTACHED: None}
    return {
        "elt_sync": _note(
            "elt_sync",
            f"schedule.elt.{use}",
            {"enabled": True, "sync_interval": "0 3 * * *", stream: "0 5 * * *"} | attached,
            {"sync_interval": NEVER, stream: NEVER} | free,
        ),
        "transform": _note(
            "transform",
            f"schedule.transform.{use}",
            {"cron_expression": "0 4 * * *", "rebuild_trigger": "schedule", "is_published_table": True},
            {"cron_expression": NEVER},
        ),
        "transform_attached": _note(
            "transform",
            f"schedule.transform.{use}_attached",
            {"cron_expression": "0 4 * * *", "rebuild_trigger": "orchestration", "is_published_table": True} | attached,
            {"cron_expression": NEVER} | free,
        ),
        "reverse_etl_sync": _note(
            "reverse_etl_sync",
            f"schedule.reverse.{use}",
            {"enabled": True, "sync_interval": "0 5 * * *"} | free,
            {"sync_interval": NEVER, "enabled": True} | free,
        ),
        "orchestration": _note(
            "orchestration",
            f"schedule.orchestration.{use}",
            {"cron_schedule": "0 2 * * *"},
            {"cron_schedule": NEVER},
        ),
    }


def _switched(use: str) -> dict[str, Any]:
    return _note("elt_sync", f"schedule.elt.{use}", {"enabled": True}, {"enabled": False})


EXAMPLES = [
    Example(
        "schedule_note",
        ScheduleNoteOperator,
        {"destination_schema_name": "schedule_note", "cron_schedule": "0 3 * * *", "paused": "False"},
        {"resource": "elt_sync", "id": "schedule.elt.note"},
        {"resource": "elt_sync", "id": "schedule.elt.note"},
    ),
    Example(
        "schedule_note_transform",
        ScheduleNoteOperator,
        {"transform_name": "note", "folder_path": "schedules"},
        {"resource": "transform", "id": "schedule.transform.note"},
        {"resource": "transform"},
    ),
    Example(
        "schedule_note_reverse_etl",
        ScheduleNoteOperator,
        {"reverse_etl_sync_id": "schedule.reverse.note", "paused": True},
        {"resource": "reverse_etl_sync", "held": {"enabled": False}},
        {"resource": "reverse_etl_sync"},
    ),
    Example(
        "schedule_note_orchestration",
        ScheduleNoteOperator,
        {"orchestration_name": "Scheduled note", "cron_schedule": "0 9 * * *"},
        # What the service shows counts.
        {"resource": "orchestration", "original": {"cron_schedule": "0 2 * * *"}},
        {"resource": "orchestration"},
    ),
    *(
        Example(
            f"schedule_take_off_{name}",
            ScheduleTakeOffOperator,
            {"noted": noted},
            {"action": "taken_off", "changed": True, "id": noted["id"]},
            {"action": "none", "changed": False},
        )
        for name, noted in (*_notes("own").items(), ("paused", _switched("pause")))
    ),
    *(
        Example(
            f"schedule_put_back_{name}",
            SchedulePutBackOperator,
            {"noted": noted, "if_changed": "fail"},
            {"action": "put_back", "changed": True, "id": noted["id"]},
            {"action": "none", "changed": False},
        )
        for name, noted in (*_notes("back").items(), ("paused", _switched("resume")))
    ),
]
