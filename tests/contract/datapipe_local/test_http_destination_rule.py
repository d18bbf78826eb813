"""End-to-end tests of the rule for addresses of HTTP destinations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.reverse_etl_home import Home, seed
from tests.contract.datapipe_local.test_cli import run
from tests.support.local_service import LocalService


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rule")


@pytest.fixture(scope="module")
def public_only(folder: Path, partner: Partner) -> Iterator[Home]:
    content = seed(folder, partner.url)
    settings = {"url": "http://169.254.169.254/latest"}
    content["connections"].append({"id": "meta", "integration_id": "http", "label": "Meta", "settings": settings})
    environment = {"DATAPIPE_LOCAL_HTTP_DESTINATIONS": "public"}
    with LocalService(content, control=True, environment=environment) as service:
        yield Home(service, folder)
        assert "Traceback" not in service.log


@pytest.mark.parametrize(
    ("connection", "expected"),
    [("endpoint", "127.0.0.1 is an address of this machine"), ("meta", "169.254.169.254 is a link-local")],
)
def test_a_run_to_a_refused_destination_fails(
    public_only: Home, partner: Partner, connection: str, expected: str
) -> None:
    partner.reset()
    public_only.load({1: "Ada"})
    sync = public_only.create(destination_connection_id=connection)
    result = public_only.api.run_reverse(sync)
    assert result.status == "FAILED"
    assert expected in str(result.error)
    assert "--http-destinations" in str(result.error)
    assert partner.received == []


def test_an_unknown_rule_stops_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run("init", "--home", home)
    done = run("serve", "--home", home, "--port", "0", DATAPIPE_LOCAL_HTTP_DESTINATIONS="local")
    assert done.returncode == 1
    assert "DATAPIPE_LOCAL_HTTP_DESTINATIONS is 'local': set it to one of public, loopback, private, any" in done.stderr
    assert run("serve", "--home", home, "--http-destinations", "local").returncode == 2
