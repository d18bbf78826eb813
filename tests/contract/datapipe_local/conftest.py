"""Fixtures of the tests of datapipe-local."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from datapipe_local.testing import DatapipeLocal
from tests.contract.datapipe_local.api import Api, Json, served
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.controlled import seed
from tests.contract.datapipe_local.elt_home import Home
from tests.contract.datapipe_local.partner import Partner
from tests.support.local_service import LocalService


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder of source files: ``people.csv``, ``orders.jsonl``."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "people.csv").write_text("id,name,age\n1,Ada,36\n2,Bob,NA\n3,Cyd,7\n")
    (folder / "orders.jsonl").write_text('{"person": 1, "sum": 10.5}\n{"person": 1, "sum": 2}\n')
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an empty folder, shared by the tests of a module."""
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def partner() -> Iterator[Partner]:
    with Partner() as partner:
        yield partner


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Collection]:
    with Collection() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def controlled(request: pytest.FixtureRequest, data: Path) -> Iterator[LocalService]:
    """
    Start a service with a control plane, shared by the tests of a module.

    It has the seed ``SEED`` of the module, else every kind of resource. Its log does not contain ``SECRETS``.
    """
    with LocalService(getattr(request.module, "SEED", None) or seed(data), control=True) as service:
        yield service
        # Injected faults cause no traceback.
        for unwanted in ("Traceback", service.api_key, *getattr(request.module, "SECRETS", ())):
            assert unwanted not in service.log


@pytest.fixture(scope="module")
def document(controlled: LocalService) -> Json:
    """Return the OpenAPI document, which is public."""
    document: Json = httpx.get(f"{controlled.base_url}/openapi.json", trust_env=False).raise_for_status().json()
    return document


@pytest.fixture
def service(controlled: LocalService) -> LocalService:
    """Reset the shared service to its seed."""
    controlled.reset()
    return controlled


@pytest.fixture
def api(service: LocalService) -> Api:
    return Api(service)


@pytest.fixture
def shop(datapipe_local: DatapipeLocal, data: Path) -> DatapipeLocal:
    """Seed the service of the pytest plugin with every kind of resource."""
    datapipe_local.seed(seed(data))
    return datapipe_local


@pytest.fixture(scope="module")
def empty_service() -> Iterator[LocalService]:
    """Start an empty service with a control plane, shared by the tests of a module."""
    with served({}, control=True) as (service, _):
        yield service


@pytest.fixture
def home(empty_service: LocalService, tmp_path: Path) -> Home:
    """Reset the empty service, for streams of files of a temporary folder."""
    return Home(empty_service, tmp_path)
