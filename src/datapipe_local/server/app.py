"""FastAPI application of the service, and its startup and shutdown."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse

from datapipe_local.api import error_responses
from datapipe_local.api.routes import (
    authorize,
    connection_bridges,
    connections,
    custom_reports,
    elt_stream_columns,
    elt_streams,
    elt_syncs,
    health,
    integrations,
    orchestrations,
    query_previews,
    reverse_etl_syncs,
    transforms,
    web,
    webhooks,
)
from datapipe_local.api.routes.common import refuse_other_than_json, refuse_unknown_parameters
from datapipe_local.connectors.egress import EgressRule
from datapipe_local.engine.elt_stream_runs import StreamLoader
from datapipe_local.engine.engine import Engine
from datapipe_local.engine.materialization import Materializer
from datapipe_local.engine.query_previews import QueryPreviewer
from datapipe_local.engine.reverse_etl_sync_runs import RecordSender
from datapipe_local.server import openapi
from datapipe_local.server.authentication import OPENAPI_PATH, KeyCheck
from datapipe_local.server.host_check import HostCheck
from datapipe_local.server.pages_header import PagesHeader
from datapipe_local.services import elt_tables, transform_removal, transform_repair
from datapipe_local.services import query_previews as preview_requests
from datapipe_local.services.context import Context
from datapipe_local.services.run_overrides import RunOverrides
from datapipe_local.services.webhooks import Intake
from datapipe_local.storage.clock import Clock
from datapipe_local.storage.records import JobKind
from datapipe_local.storage.store import Store
from datapipe_local.warehouse import previews
from datapipe_local.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from starlette.routing import BaseRoute

    from datapipe_local.control.control import Control
    from datapipe_local.storage.home import Home

log = logging.getLogger(__name__)

_SECONDS_FOR_STATEMENTS = 2.0

_RESOURCES = (
    connections,
    connection_bridges,
    integrations,
    elt_syncs,
    elt_streams,
    custom_reports,
    orchestrations,
    query_previews,
    transforms,
    reverse_etl_syncs,
)


def make_app(
    context: Context, api_key: str, control: Control | None = None, hosts: Collection[str] | None = None
) -> FastAPI:
    """
    Return the FastAPI application of a service.

    :param context: The service.
    :param api_key: The API key that clients must send.
    :param control: The control plane; ``None`` to omit its routes.
    :param hosts: The allowed values of the ``Host`` header; ``None`` allows any.
    """
    app = FastAPI(title="datapipe-local", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.context = context
    app.state.intake = Intake(context)
    app.include_router(health.router)
    app.include_router(authorize.router)
    # Starlette tries routes in order: the most frequent ones come first.
    for resource in (webhooks, *_RESOURCES):
        app.include_router(
            resource.router, dependencies=[Depends(refuse_unknown_parameters), Depends(refuse_other_than_json)]
        )
    app.include_router(elt_stream_columns.router, dependencies=[Depends(refuse_unknown_parameters)])
    app.include_router(web.router)
    described = openapi.document(interface_routes(), webhooks.router.routes)
    app.add_api_route(OPENAPI_PATH, lambda: JSONResponse(described), include_in_schema=False)
    error_responses.install(app)
    if control is not None:
        _add_control(app, control)
    app.add_middleware(KeyCheck, key=api_key)
    app.add_middleware(HostCheck, names=hosts)
    app.add_middleware(PagesHeader)
    return app


def interface_routes() -> list[BaseRoute]:
    """Return the routes of the interface, without the routes that only this service has."""
    return [route for resource in _RESOURCES for route in resource.router.routes]


@contextmanager
def running_app(
    home: Home,
    *,
    with_control: bool = False,
    with_schedules: bool = True,
    older_description: bool = False,
    memory_limit: str | None = None,
    preview_seconds: float = previews.SECONDS,
    hosts: Collection[str] | None = None,
    http_destinations: EgressRule = EgressRule.LOOPBACK,
) -> Iterator[FastAPI]:
    """
    Open a home, start its engine, and yield the application that serves it.

    :param home: An initialized home, locked by this process.
    :param with_control: Add the control plane.
    :param with_schedules: Start scheduled runs.
    :param older_description: Show only the fields of the older interface description, regardless of the seed.
    :param memory_limit: The memory limit of the warehouse, such as ``2GB``; ``None`` for four fifths of the machine's.
    :param preview_seconds: The time limit of a query preview, in seconds.
    :param hosts: The allowed values of the ``Host`` header; ``None`` allows any.
    :param http_destinations: The class of addresses that reverse ETL may send records to over HTTP.
    :raises SetupError: a file of the home cannot be opened.
    """
    # A killed process may have left files there. They are useless.
    home.make_scratch(empty=True)
    store = Store(home.state)
    clock, run_overrides = _controlled(store) if with_control else (Clock(), RunOverrides())
    warehouse = Warehouse(home.warehouse, home.scratch, memory_limit)
    context = Context(
        store, warehouse, clock, run_overrides, older_description=older_description, http_destinations=http_destinations
    )
    context.warehouse.discard_all_unfinished()
    elt_tables.drop_marked_tables(context)
    transform_removal.finish(context)
    transform_repair.repair(context)
    preview_requests.fail_interrupted(context)
    engine = Engine(
        context,
        {
            JobKind.ELT_STREAM_RUN: StreamLoader(context),
            JobKind.MATERIALIZATION: Materializer(context),
            JobKind.REVERSE_ETL_SYNC_RUN: RecordSender(context),
            JobKind.QUERY_PREVIEW: QueryPreviewer(context, seconds=preview_seconds),
        },
        schedules=with_schedules,
    )
    control = _control(context, engine, home, with_schedules=with_schedules) if with_control else None
    engine.start()
    try:
        yield make_app(context, home.read_key(), control, hosts)
    finally:
        # Threads of abandoned requests may still be at work.
        if engine.stop() and context.warehouse.wait_until_idle(_SECONDS_FOR_STATEMENTS):
            context.warehouse.close()
            context.store.close()
        else:
            # The exit of the process ends them. No data is lost: every step survives a kill.
            log.warning("Some jobs did not stop in time. They continue at the next start")


def _controlled(store: Store) -> tuple[Clock, RunOverrides]:
    # Imported here (and in _control) so that a service without a control plane does not load it.
    from datapipe_local.control.clock import StoredClock
    from datapipe_local.control.run_overrides import StoredRunOverrides
    from datapipe_local.control.tables import prepare

    clock = StoredClock(store)
    prepare(store.database, clock)
    return clock, StoredRunOverrides(store)


def _control(context: Context, engine: Engine, home: Home, *, with_schedules: bool) -> Control:
    from datapipe_local.control.control import Control
    from datapipe_local.control.paths import Interface
    from datapipe_local.control.time import Time

    log.warning("The control plane is on: any client with the API key can inject faults and reset this service")
    time = Time(context, engine, with_schedules=with_schedules)
    return Control(context, engine, Interface(interface_routes(), webhooks.router.routes), home.folder, time)


def _add_control(app: FastAPI, control: Control) -> None:
    from datapipe_local.control import routes
    from datapipe_local.control.middleware import ControlMiddleware

    app.state.control = control
    app.include_router(routes.router, dependencies=[Depends(refuse_unknown_parameters)])
    app.add_middleware(ControlMiddleware, control=control)
