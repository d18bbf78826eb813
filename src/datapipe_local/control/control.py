"""The control plane of one service: its parts together, and what concerns all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local import emptying
from datapipe_local.control.faults import Faults
from datapipe_local.control.journal import Journal
from datapipe_local.control.polls import Polls
from datapipe_local.control.query import rows
from datapipe_local.control.script import StoredScript
from datapipe_local.control.traffic import Delays
from datapipe_local.errors import BadRequestError, InsufficientStorageError, ServiceError, SetupError
from datapipe_local.routes import failures
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import GivenDocument, GivenError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from datapipe_local.control.faults import Acting
    from datapipe_local.control.models import RunBehaviour
    from datapipe_local.control.paths import Interface, Target
    from datapipe_local.control.time import Time
    from datapipe_local.engine.engine import Engine
    from datapipe_local.service.context import Context


class BusyError(ServiceError):
    """503: not now."""

    status = 503
    default_code = "busy"


class InvalidSeedError(BadRequestError):
    """
    400: something in a seed is wrong, and where.

    :param error: What.
    """

    default_code = "invalid_seed"

    def __init__(self, error: SetupError) -> None:
        super().__init__(str(error))
        self._error = error

    def as_json(self) -> dict[str, Any]:
        """Give the body of the answer; who has the lines of the seed finds them by the location."""
        body = super().as_json()
        if isinstance(self._error, GivenError):
            body |= {"location": list(self._error.location), "reason": self._error.reason}
        return body


class Arrival(NamedTuple):
    """
    A request, and the fault that it meets.

    :param seq: Its number in the journal; ``None`` for a webhook, which is not in the journal.
    :param acting: The fault.
    """

    seq: int | None
    acting: Acting | None


class Control:
    """
    The control plane.

    :param context: The service.
    :param engine: What works for it.
    :param interface: Its routes.
    :param folder: What paths in a seed that is given to it are relative to, unless it says otherwise.
    :param time: Its clock.
    """

    def __init__(self, context: Context, engine: Engine, interface: Interface, folder: Path, time: Time) -> None:
        self._context = context
        self._engine = engine
        self._folder = folder
        self.interface = interface
        self.time = time
        self.script = StoredScript(context.store)
        self.polls = Polls(context, self.script)
        self.journal = Journal(context)
        self.faults = Faults(context)
        self.delays = Delays()

    def arrived(self, method: str, path: str, query: str, target: Target) -> Arrival:
        """Note a request and count it with the fault that it meets, both or, if the process is killed, neither."""
        with self._context.store.transaction():
            seq, resource_id = self.journal.arrived(method, path, query, target)
            acting = self.faults.meet(method, path, resource_id)
            if acting is not None:
                self.journal.fault(seq, acting.as_json())
        if method == "GET" and resource_id is not None:
            self.polls.look(resource_id)
        return Arrival(seq, acting)

    def webhook_arrived(self, method: str, path: str, connection_id: str) -> Arrival:
        """Count a request to a webhook with the fault that it meets."""
        with self._context.store.transaction():
            return Arrival(None, self.faults.meet(method, path, connection_id))

    def insufficient_storage(self, error: Exception) -> InsufficientStorageError | None:
        """Return the answer to a request whose write failed, or None if an error has another cause."""
        return failures.insufficient_storage(self._context, error)

    def nothing_to_do(self, arrival: Arrival) -> None:
        """Take back that a fault has acted on a request."""
        if arrival.acting is not None:
            with self._context.store.transaction():
                self.faults.give_back(arrival.acting)
                if arrival.seq is not None:
                    self.journal.fault(arrival.seq, None)

    def behave(self, behaviour: RunBehaviour) -> None:
        """Have runs behave so, instead of all that was said before. What waits for looks goes on."""
        with self._context.store.transaction():
            self.script.replace(behaviour)
            self.polls.let_all_go()

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Ask the warehouse."""
        return rows(self._context.warehouse, sql)

    def seed(self, content: Mapping[str, Any], folder: Path | None = None) -> dict[str, int]:
        """
        Apply a seed while the service is running.

        :param content: What would stand in the seed's file.
        :param folder: What paths in it are relative to.
        :return: How many entries of each kind were created or changed.
        :raises BadRequestError: something in it is wrong; then nothing of it is applied.
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
        Put the service where it was after its seed was applied: no run, no row, no trace of a test.

        Work that is going on is broken off. A process that is killed in here may have emptied the warehouse and
        not yet the store; then it is reset again.

        :param keep_seed: Apply again what was applied; else nothing is left at all.
        :raises BusyError: something could not be broken off, because a destination does not answer.
        """
        stopped = self._engine.stop()
        self._context.warehouse.resume()
        try:
            if not stopped:
                raise BusyError("Some work could not be broken off in time: try again in some seconds.")
            with self._context.publishing, self._context.store.transaction():
                emptying.empty(self._context, keep_seed=keep_seed)
                self.journal.clear()
        finally:
            self.time.reload()
            self._engine.start()
            self._context.wake.set()
