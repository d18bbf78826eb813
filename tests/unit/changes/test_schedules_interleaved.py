"""
All interleavings of the requests of two owners of one schedule and a user who edits it.

Each interleaving ends with the original schedule: no owner overwrites a value that it has seen to belong to another
owner, and nothing remains paused.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from croniter import croniter

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.resources import schedules
from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs
from airflow_provider_datapipe.resources.schedule_kinds import PauseContext
from airflow_provider_datapipe.resources.schedules import ScheduleChangedError, ScheduleOwnedError
from airflow_provider_datapipe.runs.task_state import NoTaskState
from tests.unit.changes.fake_service import Service
from tests.unit.changes.test_schedules import ATTACHED, OURS, THEIRS

pytestmark = pytest.mark.slow


SNAPSHOT, PAUSE, RESTORE, OVER = "snapshot", "pause", "restore", "over"
EDITED = "0 9 * * *"
IF_CHANGED = ("fail", "keep", "restore")
STREAMS = {"streams": {"s1": "0 1 * * *"}}
Fields = dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """
    One owner, at any request of its three tasks.

    :param answers: answers and errors that the current task has got.
    :param key: part of the answers that can influence the task.
    :param seen: fields that the task has read, with their values.
    :param end: result of the restore task.
    """

    mark: str
    paused: bool = False
    at: str = SNAPSHOT
    answers: tuple[Any, ...] = ()
    key: tuple[Any, ...] = ()
    seen: tuple[tuple[str, Any], ...] = ()
    snapshot: Any = None
    was_paused: bool = False
    end: str | None = None


@dataclass(frozen=True)
class State:
    """State of the service and of all participants."""

    fields: tuple[tuple[str, Any], ...]
    owners: tuple[Owner, ...]
    is_edited: bool
    kills: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of the state."""
        where = tuple((each.at, each.key, repr(each.snapshot), each.was_paused, each.end) for each in self.owners)
        return self.fields, where, self.is_edited, self.kills


class Exploration:
    """
    All interleavings of the requests of owners and the edit of a user.

    :param kind: kind of the resource.
    :param more: initial fields that differ from the defaults.
    :param if_changed: ``if_changed`` of the restore tasks.
    :param paused: for each owner, True if it pauses by disabling the resource.
    :param edit: field and value of the user's edit, which happens once at any time.
    :param kills: number of killed tasks. Each is killed at any of its requests.
    """

    def __init__(
        self,
        kind: str,
        more: Fields,
        if_changed: str,
        *,
        paused: tuple[bool, ...] = (False, False),
        edit: tuple[str, Any] | None = None,
        kills: int = 0,
    ) -> None:
        self.service = Service(kind, **more)
        self.if_changed, self.edit = if_changed, edit
        owners = tuple(Owner(mark, each) for mark, each in zip((OURS, THEIRS), paused, strict=False))
        self.original = self._fields
        self.first = State(tuple(self.original.items()), owners, edit is None, kills)

    @property
    def _fields(self) -> Fields:
        streams = {f"stream {each}": value for each, value in self.service.streams.items()}
        names = ("enabled", "sync_interval", "cron_expression", "cron_schedule", "orchestration_workflow_id")
        return {name: self.service.resource[name] for name in names if name in self.service.resource} | streams

    def _set(self, fields: Fields) -> None:
        for name, value in fields.items():
            if name.startswith("stream "):
                self.service.streams[name.removeprefix("stream ")] = value
            else:
                self.service.resource[name] = value

    def final_states(self) -> Iterator[State]:
        """Return each possible final state."""
        found, todo = {self.first.key}, [self.first]
        while todo:
            state = todo.pop()
            following = list(self._following(state))
            if not following:
                yield state
            for each in following:
                if each.key not in found:
                    found.add(each.key)
                    todo.append(each)

    def _following(self, state: State) -> Iterator[State]:
        if not state.is_edited:
            assert self.edit is not None
            field, value = self.edit
            yield replace(state, fields=tuple((dict(state.fields) | {field: value}).items()), is_edited=True)
        for nth, owner in enumerate(state.owners):
            # Without loss of generality, the first of two equal owners begins.
            is_first = state.key == self.first.key
            if owner.at == OVER or (is_first and nth and not owner.paused):
                continue
            self._set(dict(state.fields))
            moved = self._after_request(owner)
            after = self._fields
            self._check_overwrites(owner, dict(state.fields), after)
            yield self._with(state, nth, moved, after)
            if state.kills and owner.at != SNAPSHOT:
                was_paused = owner.at == RESTORE and owner.was_paused
                killed = Owner(owner.mark, owner.paused, RESTORE, snapshot=owner.snapshot, was_paused=was_paused)
                if owner.answers:
                    yield replace(self._with(state, nth, killed, dict(state.fields)), kills=state.kills - 1)
                yield replace(self._with(state, nth, killed, after), kills=state.kills - 1)

    @staticmethod
    def _with(state: State, nth: int, owner: Owner, fields: Fields) -> State:
        owners = (*state.owners[:nth], owner, *state.owners[nth + 1 :])
        return replace(state, fields=tuple(fields.items()), owners=owners)

    def _flow(self, owner: Owner) -> Any:
        context = PauseContext(DeactivatedSyncs(NoTaskState()), 0)
        if owner.at == SNAPSHOT:
            which = "elt_sync_id" if self.service.kind == "elt_sync" else f"{self.service.kind}_id"
            finding = schedules.find(**{which: "x"})
            return schedules.take_snapshot(
                finding, owner.mark, paused=owner.paused, cron_schedule=None, open_pauses=(), previous=None
            )
        if owner.at == PAUSE:
            return schedules.pause(owner.snapshot, context)
        return schedules.restore(
            owner.snapshot, context, pause_may_be_partial=not owner.was_paused, if_changed=self.if_changed
        )

    def _after_request(self, owner: Owner) -> Owner:
        """Send the next request of an owner. Return the new state of the owner."""
        flow = self._flow(owner)
        request = flow.send(None)
        for each in owner.answers:
            request = flow.throw(each) if isinstance(each, DatapipeError) else flow.send(each)
        try:
            answer: Any = self.service.send(request)
        except DatapipeError as error:
            answer = error
        name = request.endpoint.name.partition(".")[2]
        reported = type(answer).__name__ if isinstance(answer, DatapipeError) else repr(answer)
        # Tasks do not use the responses to changes.
        key = reported if name in ("get", "list") or isinstance(answer, DatapipeError) else name
        try:
            if isinstance(answer, DatapipeError):
                flow.throw(answer)
            else:
                flow.send(answer)
        except StopIteration as stop:
            return self._after(owner, stop.value, None)
        except DatapipeError as error:
            return self._after(owner, None, error)
        seen = dict(owner.seen) | (
            {} if isinstance(answer, DatapipeError) else self._shown(owner, request.endpoint.name, answer)
        )
        return replace(owner, answers=(*owner.answers, answer), key=(*owner.key, key), seen=tuple(seen.items()))

    def _after(self, owner: Owner, result: Any, error: DatapipeError | None) -> Owner:
        if owner.at == SNAPSHOT:
            # The restore task does not run without a snapshot.
            at = PAUSE if error is None and result["paused"] else OVER
            return Owner(owner.mark, owner.paused, at, snapshot=result)
        if owner.at == PAUSE:
            return Owner(owner.mark, owner.paused, RESTORE, snapshot=owner.snapshot, was_paused=error is None)
        # The snapshot is kept for a retry of a failed restore.
        end = " ".join(result[1]) if error is None else type(error).__name__
        return Owner(owner.mark, owner.paused, OVER, snapshot=owner.snapshot, end=end)

    def retried(self, state: State) -> Iterator[tuple[Fields, list[str]]]:
        """Retry the failed restore tasks in each order. Yield the fields and the results."""
        failed = [each for each in state.owners if (each.end or "").endswith("Error")]
        for order in itertools.permutations(failed):
            self._set(dict(state.fields))
            ends = [each.end or "" for each in state.owners if each not in failed]
            for owner in order:
                try:
                    self.service.run(self._flow(replace(owner, at=RESTORE)))
                except (ScheduleOwnedError, ScheduleChangedError) as error:
                    ends.append(type(error).__name__)
                assert self.service.paused == 0
            yield self._fields, ends

    def check(self) -> None:
        """Assert for each final state that the schedule is restored, or that a task has failed and a retry does it."""
        for state in self.final_states():
            ends = [each.end or "" for each in state.owners]
            if not self._is_restored(dict(state.fields), ends):
                assert any(ends), state
                for fields, then in self.retried(state):
                    assert self._is_restored(fields, then), (state, fields)

    def _is_restored(self, fields: Fields, ends: list[str]) -> bool:
        if self.edit is not None and self.if_changed == "fail" and "ScheduleChangedError" in ends:
            return True
        allowed = {field: [value] for field, value in self.original.items()}
        if self.edit is not None:
            allowed[self.edit[0]].append(self.edit[1])
        # A short deactivation during another owner's change cannot be distinguished from one by the user.
        if any("enabled was changed to False in the meantime, and is kept" in end for end in ends):
            allowed["enabled"].append(False)
        return all(fields[field] in values for field, values in allowed.items())

    def _check_overwrites(self, owner: Owner, before: Fields, after: Fields) -> None:
        """Assert that an owner overwrites no value that it has seen to belong to another owner or the user."""
        (foreign,) = {OURS, THEIRS} - {owner.mark}
        for field in before:
            if before[field] == after[field]:
                continue
            if before[field] == foreign or (
                (field, before[field]) == self.edit and field != "enabled" and not self._may_overwrite(owner)
            ):
                assert dict(owner.seen).get(field) != before[field], f"{owner.at} overwrites {field} {before[field]}"

    def _may_overwrite(self, owner: Owner) -> bool:
        """Return True if an owner may overwrite the edit: it is in its snapshot, or ``if_changed`` is ``restore``."""
        assert self.edit is not None
        field, value = self.edit
        snapshot = owner.snapshot["original"].get(f"sync_interval of {field}" if field.startswith("stream") else field)
        return snapshot == value or (self.if_changed == "restore" and owner.at == RESTORE)

    def _shown(self, owner: Owner, name: str, answer: Any) -> Fields:
        """Return the fields that a task checks for marks. Updates of reverse ETL syncs check other fields."""
        if name == "elt_streams.list":
            return {f"stream {each.id}": each.sync_interval for each in answer.data}
        if name.endswith(".get") and not (owner.seen and self.service.kind == "reverse_etl_sync"):
            shown = self._fields
            return {field: shown[field] for field in shown if not field.startswith("stream ")}
        return {}


@pytest.fixture(autouse=True)
def deterministic_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give snapshots equal IDs, so that equal states are recognized, and cache the validation of cron expressions."""
    monkeypatch.setattr(schedules, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="round")))
    monkeypatch.setattr(croniter, "is_valid", functools.cache(croniter.is_valid))


#: Reverse ETL syncs have thousands of interleavings, so few of their cases are tested.
CONTESTED: list[tuple[str, Fields, tuple[bool, bool]]] = [
    ("elt_sync", {}, (False, False)),
    ("elt_sync", STREAMS, (False, False)),
    ("elt_sync", ATTACHED | STREAMS, (False, False)),
    ("elt_sync", ATTACHED | STREAMS, (False, True)),
    ("elt_sync", {}, (True, True)),
    ("transform", {}, (False, False)),
    ("transform", ATTACHED, (False, False)),
    ("transform", ATTACHED | {"cron_expression": None, "materialization": "view"}, (False, False)),
    ("reverse_etl_sync", {}, (False, False)),
    ("reverse_etl_sync", {}, (False, True)),
    ("orchestration", {}, (False, False)),
]


@pytest.mark.parametrize(("kind", "more", "paused"), CONTESTED, ids=str)
def test_two_owners_restore_the_original_schedule(kind: str, more: Fields, paused: tuple[bool, bool]) -> None:
    # No value of if_changed permits overwriting the value of another owner.
    for if_changed in IF_CHANGED if kind != "reverse_etl_sync" else ("restore",):
        Exploration(kind, more, if_changed, paused=paused).check()


def test_two_owners_with_killed_tasks() -> None:
    Exploration("elt_sync", STREAMS, "restore", kills=2).check()


EDITS: list[tuple[str, Fields, str, Any]] = [
    *(
        ("elt_sync", ATTACHED | STREAMS, *edit)
        for edit in (
            ("sync_interval", EDITED),
            ("stream s1", EDITED),
            ("stream s1", None),
            ("orchestration_workflow_id", "p"),
            ("enabled", False),
        )
    ),
    ("elt_sync", STREAMS, "orchestration_workflow_id", "p"),
    ("transform", {}, "cron_expression", EDITED),
    ("transform", {}, "orchestration_workflow_id", "p"),
    ("transform", ATTACHED, "cron_expression", EDITED),
    ("transform", ATTACHED, "orchestration_workflow_id", "p"),
    ("reverse_etl_sync", ATTACHED, "sync_interval", EDITED),
    ("reverse_etl_sync", {}, "sync_interval", EDITED),
    ("reverse_etl_sync", {}, "orchestration_workflow_id", "p"),
    ("reverse_etl_sync", {}, "enabled", False),
    ("orchestration", {}, "cron_schedule", EDITED),
]


@pytest.mark.parametrize("if_changed", IF_CHANGED)
@pytest.mark.parametrize("kills", [0, 1])
@pytest.mark.parametrize(("kind", "more", "field", "value"), EDITS, ids=str)
def test_edit_of_a_user_is_kept_and_the_rest_restored(
    kind: str, more: Fields, field: str, value: Any, *, kills: int, if_changed: str
) -> None:
    Exploration(kind, more, if_changed, paused=(False,), edit=(field, value), kills=kills).check()


@pytest.mark.parametrize("if_changed", IF_CHANGED)
def test_two_owners_and_an_edit_of_a_user(if_changed: str) -> None:
    Exploration("elt_sync", STREAMS, if_changed, edit=("stream s1", EDITED)).check()
