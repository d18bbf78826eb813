"""Control plane of one service: journal, faults, run overrides, clock, seed and reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.api import error_responses
from datapipe_local.common.errors import BadRequestError, InsufficientStorageError, SetupError
from datapipe_local.control.delays import Delays
from datapipe_local.control.errors import BusyError
from datapipe_local.control.faults import Faults
from datapipe_local.control.journal import Journal
from datapipe_local.control.poll_driven_clock import PollDrivenClock
from datapipe_local.control.run_overrides import StoredRunOverrides
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import GivenDocument, GivenError
from datapipe_local.seed.reset import reset_service
from datapipe_local.warehouse import previews
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from datapipe_local.control.faults import Acting
    from datapipe_local.control.models import RunBehaviour
    from datapipe_local.control.paths import Interface, Target
    from datapipe_local.control.time import Time
    from datapipe_local.engine.engine import Engine
    from datapipe_local.services.context import Context

#: Limits of a query.
_SECONDS = 30
_MOST_ROWS = 10_000
_MOST_CHARACTERS = 20_000_000


class InvalidSeedError(BadRequestError):
    """
    400: a seed is invalid.

    :param error: The problem and its place.
    """

    default_code = "invalid_seed"

    def __init__(self, error: SetupError) -> None:
        super().__init__(str(error))
        self._error = error

    def as_json(self) -> dict[str, Any]:
        """Return the response body. The location lets clients find the line of their seed."""
        body = super().as_json()
        if isinstance(self._error, GivenError):
            body |= {"location": list(self._error.location), "reason": self._error.reason}
        return body


class Arrival(NamedTuple):
    """
    Request and the fault that acts on it.

    :param seq: The number of the request in the journal; ``None`` for a webhook, which is not in the journal.
    :param acting: The fault; ``None`` if no fault acts.
    """

    seq: int | None
    acting: Acting | None


class Control:
    """
    Control plane.

    :param context: The service.
    :param engine: The engine of the service.
    :param interface: The routes of the service.
    :param folder: The base folder for relative paths in seeds without a folder of their own.
    :param time: The clock and the engine that follows it.
    """

    def __init__(self, context: Context, engine: Engine, interface: Interface, folder: Path, time: Time) -> None:
        self._context = context
        self._engine = engine
        self._folder = folder
        self.interface = interface
        self.time = time
        self.run_overrides = StoredRunOverrides(context.store)
        self.polls = PollDrivenClock(context, self.run_overrides)
        self.journal = Journal(context)
        self.faults = Faults(context)
        self.delays = Delays()

    def arrived(self, method: str, path: str, query: str, target: Target) -> Arrival:
        """Record a request and count the fault that acts on it, in one transaction."""
        with self._context.store.transaction():
            seq, resource_id = self.journal.arrived(method, path, query, target)
            acting = self.faults.matching_rule(method, path, resource_id)
            if acting is not None:
                self.journal.fault(seq, acting.as_json())
        if method == "GET" and resource_id is not None:
            self.polls.poll(resource_id)
        return Arrival(seq, acting)

    def webhook_arrived(self, method: str, path: str, connection_id: str) -> Arrival:
        """Count the fault that acts on a webhook request."""
        with self._context.store.transaction():
            return Arrival(None, self.faults.matching_rule(method, path, connection_id))

    def insufficient_storage(self, error: Exception) -> InsufficientStorageError | None:
        """Return the response to a request whose write failed; None if the error has another cause."""
        return error_responses.insufficient_storage(self._context, error)

    def undo_fault_count(self, arrival: Arrival) -> None:
        """Undo the count of a fault that had nothing to change."""
        if arrival.acting is not None:
            with self._context.store.transaction():
                self.faults.undo_count(arrival.acting)
                if arrival.seq is not None:
                    self.journal.fault(arrival.seq, None)

    def replace_run_overrides(self, behaviour: RunBehaviour) -> None:
        """Replace all run overrides, and release the runs that wait for polls."""
        with self._context.store.transaction():
            self.run_overrides.replace(behaviour)
            self.polls.release_all()

    def change_run_overrides(self, changes: RunBehaviour) -> None:
        """Change some run overrides, and release the runs of the given resources that wait for polls."""
        with self._context.store.transaction():
            self.run_overrides.change(changes)
            for resource_id in changes.resources:
                self.polls.release(resource_id)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """
        Return the rows of a query over the warehouse, for assertions of tests.

        :param sql: A query that only reads.
        :raises BadRequestError: the query does more than read, fails, or has too many rows.
        """
        try:
            found = previews.preview(
                self._context.warehouse,
                sql,
                seconds=_SECONDS,
                most_rows=_MOST_ROWS,
                most_characters=_MOST_CHARACTERS,
                with_total=False,
            )
        except WarehouseError as error:
            raise BadRequestError(f"sql: {error}", error_code="query_failed") from error
        if not found.is_complete:
            raise BadRequestError(
                f"sql: more than {_MOST_ROWS:,} rows or {_MOST_CHARACTERS:,} characters: limit the query,"
                " or count the rows."
            )
        return found.rows

    def seed(self, content: Mapping[str, Any], folder: Path | None = None) -> dict[str, int]:
        """
        Apply a seed while the service runs.

        :param content: The content of the seed file.
        :param folder: The base folder for relative paths in the seed.
        :return: The number of created or changed entries by kind.
        :raises BadRequestError: the seed is invalid; nothing of it is applied.
        """
        try:
            seeding = Seeding(self._context, GivenDocument(content, folder or self._folder))
            seeding.apply()
        except SetupError as error:
            raise InvalidSeedError(error) from error
        self._context.wake.set()
        return dict(seeding.applied)

    def reset(self, *, keep_seed: bool) -> None:
        """
        Reset the service to its state after the seed was applied, without runs, rows and traces of tests.

        Running jobs are interrupted. If the process is killed midway, the warehouse may be empty while the store is
        not; the next reset completes it.

        :param keep_seed: Apply all stored seeds again; otherwise nothing is left.
        :raises BusyError: a job could not be interrupted, because a destination does not respond.
        :raises BadRequestError: a seed can no longer be applied; nothing is changed.
        """
        stopped = self._engine.stop()
        self._context.warehouse.resume()
        try:
            if not stopped:
                raise BusyError("Some work could not be interrupted in time: try again in a few seconds.")
            with self._context.publishing, self._context.store.transaction():
                reset_service(self._context, keep_seed=keep_seed)
                self.journal.clear()
        except SetupError as error:
            raise InvalidSeedError(error) from error
        finally:
            self.time.reload()
            self._engine.start()
            self._context.wake.set()
