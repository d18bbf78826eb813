"""
Two owners of one schedule, and a person who edits it, in every order of their requests.

Each order ends with what was there before: nobody overwrites what it has seen to be another's, and nothing is left off.
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
from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.resources import schedules
from airflow_provider_datapipe.resources.reverse_etl_syncs import DeactivatedSyncs
from airflow_provider_datapipe.resources.schedule_kinds import PauseContext
from airflow_provider_datapipe.resources.schedules import ScheduleChangedError, ScheduleOwnedError
from airflow_provider_datapipe.runs.task_state import NoTaskState
from tests.unit.changes.fake_service import Service
from tests.unit.changes.test_schedules import ATTACHED, OURS, THEIRS

pytestmark = pytest.mark.slow


NOTE, TAKE_OFF, PUT_BACK, OVER = "note", "pause", "restore", "over"
EDITED = "0 9 * * *"
IF_CHANGED = ("fail", "keep", "restore")
STREAMS = {"streams": {"s1": "0 1 * * *"}}
Fields = dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """
    One owner in the middle of its three tasks.

    :param answers: what its task was answered so far; errors as they are.
    :param key: the same, as far as it can matter.
    :param seen: the fields that its task has looked at, as they were then.
    :param end: what the teardown ended with.
    """

    mark: str
    paused: bool = False
    at: str = NOTE
    answers: tuple[Any, ...] = ()
    key: tuple[Any, ...] = ()
    seen: tuple[tuple[str, Any], ...] = ()
    noted: Any = None
    was_taken: bool = False
    end: str | None = None


@dataclass(frozen=True)
class World:
    """State of the service and of all participants."""

    fields: tuple[tuple[str, Any], ...]
    owners: tuple[Owner, ...]
    is_edited: bool
    kills: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of the state."""
        where = tuple((each.at, each.key, repr(each.noted), each.was_taken, each.end) for each in self.owners)
        return self.fields, where, self.is_edited, self.kills


class Exploration:
    """
    All orders of what owners and a person do.

    :param kind: what is owned.
    :param more: how it is at first.
    :param if_changed: what the owners do where somebody has changed the schedule.
    :param paused: for each owner, whether it disables it.
    :param edit: what a person does once, at any time: a field, and its value.
    :param kills: how many tasks are killed, each at any of its requests.
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
        self.first = World(tuple(self.original.items()), owners, edit is None, kills)

    @property
    def _fields(self) -> Fields:
        streams = {f"stream {each}": value for each, value in self.service.streams.items()}
        names = ("enabled", "sync_interval", "cron_expression", "cron_schedule", "orchestration_workflow_id")
        return {name: self.service.thing[name] for name in names if name in self.service.thing} | streams

    def _set(self, fields: Fields) -> None:
        for name, value in fields.items():
            if name.startswith("stream "):
                self.service.streams[name.removeprefix("stream ")] = value
            else:
                self.service.thing[name] = value

    def worlds(self) -> Iterator[World]:
        """Return each possible final state."""
        found, todo = {self.first.key}, [self.first]
        while todo:
            world = todo.pop()
            following = list(self._following(world))
            if not following:
                yield world
            for each in following:
                if each.key not in found:
                    found.add(each.key)
                    todo.append(each)
        self.seen = len(found)

    def _following(self, world: World) -> Iterator[World]:
        if not world.is_edited:
            assert self.edit is not None
            field, value = self.edit
            yield replace(world, fields=tuple((dict(world.fields) | {field: value}).items()), is_edited=True)
        for nth, owner in enumerate(world.owners):
            # Two that are alike: it is enough that one of them begins.
            is_first = world.key == self.first.key
            if owner.at == OVER or (is_first and nth and not owner.paused):
                continue
            self._set(dict(world.fields))
            moved = self._moved(owner)
            after = self._fields
            self._watch(owner, dict(world.fields), after)
            yield self._with(world, nth, moved, after)
            if world.kills and owner.at != NOTE:
                was_taken = owner.at == PUT_BACK and owner.was_taken
                killed = Owner(owner.mark, owner.paused, PUT_BACK, noted=owner.noted, was_taken=was_taken)
                if owner.answers:
                    yield replace(self._with(world, nth, killed, dict(world.fields)), kills=world.kills - 1)
                yield replace(self._with(world, nth, killed, after), kills=world.kills - 1)

    @staticmethod
    def _with(world: World, nth: int, owner: Owner, fields: Fields) -> World:
        owners = (*world.owners[:nth], owner, *world.owners[nth + 1 :])
        return replace(world, fields=tuple(fields.items()), owners=owners)

    def _steps(self, owner: Owner) -> Any:
        means = PauseContext(DeactivatedSyncs(NoTaskState()), 0)
        if owner.at == NOTE:
            which = "elt_sync_id" if self.service.kind == "elt_sync" else f"{self.service.kind}_id"
            finding = schedules.find(**{which: "x"})
            return schedules.take_snapshot(
                finding, owner.mark, paused=owner.paused, cron_schedule=None, begun=(), kept=None
            )
        if owner.at == TAKE_OFF:
            return schedules.pause(owner.noted, means)
        return schedules.restore(owner.noted, means, left_whole=owner.was_taken, if_changed=self.if_changed)

    def _moved(self, owner: Owner) -> Owner:
        """Carry out the next request of an owner."""
        steps = self._steps(owner)
        request = steps.send(None)
        for each in owner.answers:
            request = steps.throw(each) if isinstance(each, DatapipeError) else steps.send(each)
        try:
            answer: Any = self.service.send(request)
        except DatapipeError as error:
            answer = error
        name = request.endpoint.name.partition(".")[2]
        reported = type(answer).__name__ if isinstance(answer, DatapipeError) else repr(answer)
        # What a change answers, nobody looks at.
        key = reported if name in ("get", "list") or isinstance(answer, DatapipeError) else name
        try:
            if isinstance(answer, DatapipeError):
                steps.throw(answer)
            else:
                steps.send(answer)
        except StopIteration as stop:
            return self._after(owner, stop.value, None)
        except DatapipeError as error:
            return self._after(owner, None, error)
        seen = dict(owner.seen) | (
            {} if isinstance(answer, DatapipeError) else self._shown(owner, request.endpoint.name, answer)
        )
        return replace(owner, answers=(*owner.answers, answer), key=(*owner.key, key), seen=tuple(seen.items()))

    def _after(self, owner: Owner, result: Any, error: DatapipeError | None) -> Owner:
        if owner.at == NOTE:
            # Without a note there is no teardown.
            at = TAKE_OFF if error is None and result["held"] else OVER
            return Owner(owner.mark, owner.paused, at, noted=result)
        if owner.at == TAKE_OFF:
            return Owner(owner.mark, owner.paused, PUT_BACK, noted=owner.noted, was_taken=error is None)
        # Of a failure that another try may mend, the note is still needed.
        end = " ".join(result[1]) if error is None else type(error).__name__
        return Owner(owner.mark, owner.paused, OVER, noted=owner.noted, end=end)

    def again(self, world: World) -> Iterator[tuple[Fields, list[str]]]:
        """Try the teardowns that failed once more, in each order, and give what is there then, and the ends."""
        failed = [each for each in world.owners if (each.end or "").endswith("Error")]
        for order in itertools.permutations(failed):
            self._set(dict(world.fields))
            ends = [each.end or "" for each in world.owners if each not in failed]
            for owner in order:
                try:
                    run_blocking(self._steps(replace(owner, at=PUT_BACK)), self.service.send, self.service.sleep)
                except (ScheduleOwnedError, ScheduleChangedError) as error:
                    ends.append(type(error).__name__)
                assert self.service.paused == 0
            yield self._fields, ends

    def check(self, world: World) -> None:
        """See that everything is as it was; where it can't be, that somebody is told, and another try helps."""
        ends = [each.end or "" for each in world.owners]
        if not self._is_well(dict(world.fields), ends):
            assert any(ends), world
            for fields, then in self.again(world):
                assert self._is_well(fields, then), (world, fields)

    def _is_well(self, fields: Fields, ends: list[str]) -> bool:
        if self.edit is not None and self.if_changed == "fail" and "ScheduleChangedError" in ends:
            return True
        allowed = {field: [value] for field, value in self.original.items()}
        if self.edit is not None:
            allowed[self.edit[0]].append(self.edit[1])
        # One that is deactivated for the moment of another's change can't be told from one that a person deactivated.
        if any("enabled was changed to False in the meantime, and is kept" in end for end in ends):
            allowed["enabled"].append(False)
        return all(fields[field] in values for field, values in allowed.items())

    def _watch(self, owner: Owner, before: Fields, after: Fields) -> None:
        """See that nobody overwrites what it has seen to be another's."""
        (foreign,) = {OURS, THEIRS} - {owner.mark}
        for field in before:
            if before[field] == after[field]:
                continue
            if before[field] == foreign or (
                (field, before[field]) == self.edit and field != "enabled" and not self._may_overwrite(owner)
            ):
                assert dict(owner.seen).get(field) != before[field], f"{owner.at} overwrites {field} {before[field]}"

    def _may_overwrite(self, owner: Owner) -> bool:
        """Return True if an owner that has stored the person's setting, or a restore, overwrites it on purpose."""
        assert self.edit is not None
        field, value = self.edit
        noted = owner.noted["original"].get(f"sync_interval of {field}" if field.startswith("stream") else field)
        return noted == value or (self.if_changed == "restore" and owner.at == PUT_BACK)

    def _shown(self, owner: Owner, name: str, answer: Any) -> Fields:
        """Return the fields that a task compares for marks; the change of a reverse ETL sync itself compares others."""
        if name == "elt_streams.list":
            return {f"stream {each.id}": each.sync_interval for each in answer.data}
        if name.endswith(".get") and not (owner.seen and self.service.kind == "reverse_etl_sync"):
            shown = self._fields
            return {field: shown[field] for field in shown if not field.startswith("stream ")}
        return {}


@pytest.fixture(autouse=True)
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare notes by their content, and cache the validation of the few expressions."""
    monkeypatch.setattr(schedules, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="round")))
    monkeypatch.setattr(croniter, "is_valid", functools.cache(croniter.is_valid))


#: Of a reverse ETL sync one is enough: there are thousands of ways.
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
def test_two_owners_leave_what_was_there(kind: str, more: Fields, paused: tuple[bool, bool]) -> None:
    # By what somebody else has changed nobody is allowed to overwrite another owner's, either.
    for if_changed in IF_CHANGED if kind != "reverse_etl_sync" else ("restore",):
        exploration = Exploration(kind, more, if_changed, paused=paused)
        for world in exploration.worlds():
            exploration.check(world)


def test_two_owners_who_die() -> None:
    exploration = Exploration("elt_sync", STREAMS, "restore", kills=2)
    for world in exploration.worlds():
        exploration.check(world)


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
def test_a_persons_edit_is_kept_and_the_rest_is_restored(
    kind: str, more: Fields, field: str, value: Any, *, kills: int, if_changed: str
) -> None:
    exploration = Exploration(kind, more, if_changed, paused=(False,), edit=(field, value), kills=kills)
    for world in exploration.worlds():
        exploration.check(world)


@pytest.mark.parametrize("if_changed", IF_CHANGED)
def test_two_owners_and_a_person(if_changed: str) -> None:
    exploration = Exploration("elt_sync", STREAMS, if_changed, edit=("stream s1", EDITED))
    for world in exploration.worlds():
        exploration.check(world)
