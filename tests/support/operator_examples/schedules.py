"""Examples of the operators that pause schedules, each alone, with the snapshot of another task as input."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.schedules import (
    SchedulePauseOperator,
    ScheduleRestoreOperator,
    ScheduleSnapshotOperator,
)
from tests.support.operator_examples.example import (
    Example,
    changed,
    elt_sync,
    files_connection,
    orchestration,
    reverse_etl_sync,
    rows,
    transform,
)

NEVER = "11 4 29 2 *"
USES = ("note", "own", "back")
_ATTACHED = {"orchestration_workflow_id": "schedule.other"}
_FREE = {"orchestration_workflow_id": None}


def _cron(use: str, own: str) -> str:
    return NEVER if use == "back" else own


def _elt(use: str, **more: Any) -> dict[str, Any]:
    return elt_sync(
        f"schedule.elt.{use}",
        f"schedule_{use}",
        connection_id="schedule_files",
        sync_interval=_cron(use, "0 3 * * *"),
        source_streams=[rows(f"schedule.elt.{use}.rows", sync_interval=_cron(use, "0 5 * * *"))],
        **({} if use == "back" else _ATTACHED),
        **more,
    )


def _transform(use: str, *, attached: bool) -> dict[str, Any]:
    name = f"{use}_attached" if attached else use
    return transform(
        f"schedule.transform.{name}",
        name,
        "schedules",
        materialization="table",
        cron_expression=_cron(use, "0 4 * * *"),
        **(_ATTACHED if attached and use != "back" else {}),
    )


def _reverse(use: str) -> dict[str, Any]:
    cron = _cron(use, "0 5 * * *")
    return reverse_etl_sync(f"schedule.reverse.{use}", "schedule.people", f"schedule_{use}", sync_interval=cron)


SEED: dict[str, Any] = {
    "connections": [files_connection("schedule_files", "Scheduled")],
    "orchestrations": [
        orchestration("schedule.other", "Other", "0 1 * * *"),
        *(orchestration(f"schedule.orchestration.{use}", f"Scheduled {use}", _cron(use, "0 2 * * *")) for use in USES),
    ],
    "elt_syncs": [*(_elt(use) for use in USES), _elt("pause"), _elt("resume", enabled=False)],
    "transforms": [
        transform("schedule.people", "people", "schedules"),
        *(_transform(use, attached=attached) for use in USES for attached in (False, True)),
    ],
    "reverse_etl_syncs": [_reverse(use) for use in USES],
}


def _snapshot(resource: str, which: str, original: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    return {"resource": resource, "id": which, "name": which, "round": "one", "original": original, "paused": held}


def _snapshots(use: str) -> dict[str, dict[str, Any]]:
    stream = f"sync_interval of stream schedule.elt.{use}.rows"
    built = {"cron_expression": "0 4 * * *", "is_published_table": True}
    return {
        "elt_sync": _snapshot(
            "elt_sync",
            f"schedule.elt.{use}",
            {"enabled": True, "sync_interval": "0 3 * * *", stream: "0 5 * * *", **_ATTACHED},
            {"sync_interval": NEVER, stream: NEVER, **_FREE},
        ),
        "transform": _snapshot(
            "transform",
            f"schedule.transform.{use}",
            {**built, "rebuild_trigger": "schedule"},
            {"cron_expression": NEVER},
        ),
        "transform_attached": _snapshot(
            "transform",
            f"schedule.transform.{use}_attached",
            {**built, "rebuild_trigger": "orchestration", **_ATTACHED},
            {"cron_expression": NEVER, **_FREE},
        ),
        "reverse_etl_sync": _snapshot(
            "reverse_etl_sync",
            f"schedule.reverse.{use}",
            {"enabled": True, "sync_interval": "0 5 * * *", **_FREE},
            {"sync_interval": NEVER, "enabled": True, **_FREE},
        ),
        "orchestration": _snapshot(
            "orchestration", f"schedule.orchestration.{use}", {"cron_schedule": "0 2 * * *"}, {"cron_schedule": NEVER}
        ),
    }


def _switched(use: str) -> dict[str, Any]:
    return _snapshot("elt_sync", f"schedule.elt.{use}", {"enabled": True}, {"enabled": False})


EXAMPLES = [
    Example(
        "schedule_note",
        ScheduleSnapshotOperator,
        {"destination_schema_name": "schedule_note", "cron_schedule": "0 3 * * *", "paused": "False"},
        {"resource": "elt_sync", "id": "schedule.elt.note"},
        {"resource": "elt_sync", "id": "schedule.elt.note"},
    ),
    Example(
        "schedule_note_transform",
        ScheduleSnapshotOperator,
        {"transform_name": "note", "folder_path": "schedules"},
        {"resource": "transform", "id": "schedule.transform.note"},
        {"resource": "transform"},
    ),
    Example(
        "schedule_note_reverse_etl",
        ScheduleSnapshotOperator,
        {"reverse_etl_sync_id": "schedule.reverse.note", "paused": True},
        {"resource": "reverse_etl_sync", "paused": {"enabled": False}},
        {"resource": "reverse_etl_sync"},
    ),
    Example(
        "schedule_note_orchestration",
        ScheduleSnapshotOperator,
        {"orchestration_name": "Scheduled note", "cron_schedule": "0 9 * * *"},
        # The given schedule applies only if the service omits it.
        {"resource": "orchestration", "original": {"cron_schedule": "0 2 * * *"}},
        {"resource": "orchestration"},
    ),
    *(
        Example(
            f"schedule_take_off_{name}",
            SchedulePauseOperator,
            {"snapshot": snapshot},
            changed("paused", id=snapshot["id"]),
        )
        for name, snapshot in (*_snapshots("own").items(), ("paused", _switched("pause")))
    ),
    *(
        Example(
            f"schedule_put_back_{name}",
            ScheduleRestoreOperator,
            {"snapshot": snapshot, "if_changed": "fail"},
            changed("restored", id=snapshot["id"]),
        )
        for name, snapshot in (*_snapshots("back").items(), ("paused", _switched("resume")))
    ),
]
