"""The control plane over HTTP."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from datapipe_local.control.control import Control
from datapipe_local.control.journal import Kind
from datapipe_local.control.models import Advance, Fault, Reset, RunBehaviour, SetClock
from datapipe_local.control.models import Query as WarehouseQuery
from datapipe_local.errors import BadRequestError
from datapipe_local.routes.common import NO_CONTENT, no_content

router = APIRouter(prefix="/_local", tags=["control plane"])

_LARGEST = 2**63 - 1
_DEFAULT_LIMIT = 1_000


def _control(request: Request) -> Control:
    control: Control = request.app.state.control
    return control


CurrentControl = Annotated[Control, Depends(_control)]


@router.get("/journal")
def read_journal(  # noqa: PLR0917 - FastAPI passes them by name
    control: CurrentControl,
    kind: Kind,
    resource_id: str | None = None,
    path: str | None = None,
    after: Annotated[int, Query(ge=0, le=_LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = _DEFAULT_LIMIT,
) -> dict[str, Any]:
    """Give the journal, oldest first; ``total`` counts all entries after ``after``, not only those given."""
    if path is not None and kind == "requests":
        control.interface.check_journal(path)
    told = control.journal.read(kind, resource_id=resource_id, path=path, after=after, limit=limit)
    # Who looks for nothing is to know whether it is for that there can be nothing.
    return told if resource_id is None else {**told, "known": control.journal.knows(resource_id)}


@router.delete("/journal", status_code=NO_CONTENT)
def clear_journal(control: CurrentControl) -> Response:
    """Forget the journal."""
    control.journal.clear()
    return no_content()


@router.get("/faults")
def get_faults(control: CurrentControl) -> dict[str, Any]:
    """Give the rules and how often they acted."""
    return {"data": control.faults.as_json()}


@router.put("/faults")
def put_faults(control: CurrentControl, rules: list[Fault]) -> dict[str, Any]:
    """Have these rules instead of all others."""
    control.faults.replace(rules, control.interface)
    return get_faults(control)


@router.delete("/faults", status_code=NO_CONTENT)
def delete_faults(control: CurrentControl) -> Response:
    """Have no rules. Requests that are being delayed go on waiting."""
    control.faults.replace([], control.interface)
    return no_content()


@router.get("/runs")
def get_runs(control: CurrentControl) -> dict[str, Any]:
    """Give how runs behave."""
    return control.script.as_json()


@router.put("/runs")
def put_runs(control: CurrentControl, behaviour: RunBehaviour) -> dict[str, Any]:
    """Have runs behave so."""
    control.behave(behaviour)
    return get_runs(control)


@router.delete("/runs", status_code=NO_CONTENT)
def delete_runs(control: CurrentControl) -> Response:
    """Have runs behave as the seed says."""
    control.behave(RunBehaviour())
    return no_content()


@router.post("/reset", status_code=NO_CONTENT)
async def reset(control: CurrentControl, body: Reset | None = None) -> Response:
    """Put the service where it was after its seed was applied."""
    # Those that are still kept waiting belong to what is over.
    control.delays.break_off()
    await run_in_threadpool(control.reset, keep_seed=body is None or body.seed == "keep")
    return no_content()


@router.post("/seed")
def seed(control: CurrentControl, document: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Apply a seed."""
    if folder is not None and not folder.is_absolute():
        raise BadRequestError("folder: give an absolute path.")
    return {"applied": control.seed(document, folder)}


@router.get("/clock")
def get_clock(control: CurrentControl) -> dict[str, Any]:
    """Tell the service's time, and whether it was set."""
    return control.time.as_json()


@router.put("/clock")
def set_clock(control: CurrentControl, body: SetClock) -> dict[str, Any]:
    """Have the clock stand still at a time."""
    control.time.set(body.now)
    return get_clock(control)


@router.delete("/clock", status_code=NO_CONTENT)
def reset_clock(control: CurrentControl) -> Response:
    """Have the clock tell the machine's time."""
    control.time.set(None)
    return no_content()


@router.post("/clock/advance")
def advance_clock(control: CurrentControl, body: Advance) -> dict[str, Any]:
    """Let time pass, and have done what is due meanwhile."""
    control.time.advance(body.seconds)
    return get_clock(control)


@router.post("/query")
def query(control: CurrentControl, body: WarehouseQuery) -> dict[str, Any]:
    """Ask the warehouse."""
    return {"data": control.rows(body.sql)}
