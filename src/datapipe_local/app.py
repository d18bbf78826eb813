"""The application: everything put together."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from datapipe_local.routes import health
from datapipe_local.routes.access import KeyCheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datapipe_local.home import Home


@contextmanager
def running_app(home: Home) -> Iterator[FastAPI]:
    """
    Open the home and give the app that answers for it.

    :param home: An initialised home, locked by this process.
    """
    app = FastAPI(title="datapipe-local", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(health.router)
    app.add_middleware(KeyCheck, key=home.read_key())
    yield app
