"""pytest plugin. Projects that never use it load it, too: it imports only modules that pytest imports anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datapipe_local.testing.process import ServiceProcess
    from datapipe_local.testing.service import DatapipeLocal

_MARKER = "datapipe_local"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(seed, ...): seeds of the fixture with this name: mappings, YAML texts or pathlib.Paths of"
        " files; seeds of the module and of the class are applied first",
    )


@pytest.fixture(scope="session")
def _datapipe_local_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Provide one service process for all tests of this process; with pytest-xdist, each worker has its own."""
    from datapipe_local.testing.process import ServiceProcess

    with ServiceProcess(tmp_path_factory.mktemp("datapipe-local")) as process:
        yield process


@pytest.fixture
def datapipe_local(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _datapipe_local_process: ServiceProcess
) -> Iterator[DatapipeLocal]:
    """
    Provide a real service that has only the content of the test's markers; ``datapipe_default`` leads to it.

    It runs on this machine, with a DuckDB warehouse. No scheduled run starts unless the test sets the clock.
    """
    from datapipe_local.testing.service import DatapipeLocal

    with DatapipeLocal(_datapipe_local_process, folder=request.path.parent, setenv=monkeypatch.setenv) as service:
        # Apply the markers from the module to the test: inner ones may refer to outer ones.
        for marker in reversed(list(request.node.iter_markers(_MARKER))):
            if marker.kwargs:
                names = ", ".join(marker.kwargs)
                raise TypeError(f"the marker {_MARKER} has no argument named {names}: give seeds without names")
            for seed in marker.args:
                service.seed(seed)
        yield service
