"""HTTP routes of the control plane."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from datapipe_local.api.routes.common import NO_CONTENT, no_content
from datapipe_local.common.errors import BadRequestError
from datapipe_local.control.control import Control
from datapipe_local.control.journal import Kind
from datapipe_local.control.models import Advance, Fault, Reset, RunBehaviour, SetClock
from datapipe_local.control.models import Query as WarehouseQuery

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
    """Return the journal, oldest first; ``total`` counts all entries after ``after``, not only those returned."""
    if path is not None and kind == "requests":
        control.interface.check_journal(path)
    page = control.journal.read(kind, resource_id=resource_id, path=path, after=after, limit=limit)
    # An empty result may mean that the resource does not exist.
    return page if resource_id is None else {**page, "known": control.journal.knows(resource_id)}


@router.delete("/journal", status_code=NO_CONTENT)
def clear_journal(control: CurrentControl) -> Response:
    """Delete the journal."""
    control.journal.clear()
    return no_content()


@router.get("/faults")
def get_faults(control: CurrentControl) -> dict[str, Any]:
    """Return the rules and the number of times that each acted."""
    return {"data": control.faults.as_json()}


@router.put("/faults")
def put_faults(control: CurrentControl, rules: list[Fault]) -> dict[str, Any]:
    """Replace all rules."""
    control.faults.replace(rules, control.interface)
    return get_faults(control)


@router.delete("/faults", status_code=NO_CONTENT)
def delete_faults(control: CurrentControl) -> Response:
    """Delete all rules. Requests that are being delayed continue to wait."""
    control.faults.replace([], control.interface)
    return no_content()


@router.get("/runs")
def get_runs(control: CurrentControl) -> dict[str, Any]:
    """Return the run overrides."""
    return control.run_overrides.as_json()


@router.put("/runs")
def put_runs(control: CurrentControl, behaviour: RunBehaviour) -> dict[str, Any]:
    """Replace the run overrides."""
    control.replace_run_overrides(behaviour)
    return get_runs(control)


@router.patch("/runs")
def patch_runs(control: CurrentControl, changes: RunBehaviour) -> dict[str, Any]:
    """Change the run overrides of the given resources."""
    control.change_run_overrides(changes)
    return get_runs(control)


@router.delete("/runs", status_code=NO_CONTENT)
def delete_runs(control: CurrentControl) -> Response:
    """Delete the run overrides; the seed applies again."""
    control.replace_run_overrides(RunBehaviour())
    return no_content()


@router.post("/reset", status_code=NO_CONTENT)
async def reset(control: CurrentControl, body: Reset | None = None) -> Response:
    """Reset the service to its state after the seed was applied."""
    # Delayed requests belong to the previous test.
    control.delays.interrupt()
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
    """Return the service's time, and whether it was set."""
    return control.time.as_json()


@router.put("/clock")
def set_clock(control: CurrentControl, body: SetClock) -> dict[str, Any]:
    """Set the clock to a time and stop it."""
    control.time.set(body.now)
    return get_clock(control)


@router.delete("/clock", status_code=NO_CONTENT)
def reset_clock(control: CurrentControl) -> Response:
    """Return the clock to the machine's time."""
    control.time.set(None)
    return no_content()


@router.post("/clock/advance")
def advance_clock(control: CurrentControl, body: Advance) -> dict[str, Any]:
    """Advance the clock, and run everything that becomes due."""
    control.time.advance(body.seconds)
    return get_clock(control)


@router.post("/query")
def query(control: CurrentControl, body: WarehouseQuery) -> dict[str, Any]:
    """Return the rows of a query over the warehouse."""
    return {"data": control.rows(body.sql)}
