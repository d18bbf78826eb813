"""Tests of options and variables of ``datapipe-local serve``: allowed hosts, addresses of destinations, switches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.reverse_etl_home import Home, seed
from tests.contract.datapipe_local.seeds import connection
from tests.contract.datapipe_local.test_cli import failure, run, serving


@pytest.fixture
def empty_home(tmp_path: Path) -> Path:
    run("init", "--home", tmp_path / "home")
    return tmp_path / "home"


HOST_NAMES = ("https://tunnel.example", "tunnel.example:80", "*.example", "a@b", "[::1].example")
INVALID = [
    *(("DATAPIPE_LOCAL_SCHEDULES", value, "DATAPIPE_LOCAL_SCHEDULES is ") for value in ("no", "2", "x" * 1000)),
    ("DATAPIPE_LOCAL_OLDER_DESCRIPTION", "yes", "DATAPIPE_LOCAL_OLDER_DESCRIPTION is "),
    (
        "DATAPIPE_LOCAL_HTTP_DESTINATIONS",
        "local",
        "DATAPIPE_LOCAL_HTTP_DESTINATIONS is 'local': set it to one of public, loopback, private, any",
    ),
    *(
        ("DATAPIPE_LOCAL_ALLOWED_HOSTS", f"other, {name}", f"DATAPIPE_LOCAL_ALLOWED_HOSTS: {name!r} is not a host name")
        for name in HOST_NAMES
    ),
]


@pytest.mark.parametrize(("variable", "value", "message"), INVALID, ids=lambda value: value[:40])
def test_invalid_variables_are_refused(empty_home: Path, variable: str, value: str, message: str) -> None:
    assert failure("serve", "--home", empty_home, "--port", "0", **{variable: value}).startswith(message)


def test_invalid_options_are_refused(empty_home: Path) -> None:
    assert run("serve", "--home", empty_home, "--http-destinations", "local").returncode == 2
    for name in HOST_NAMES:
        message = failure("serve", "--home", empty_home, "--port", "0", "--allow-host", name)
        assert f"--allow-host: {name!r} is not a host name" in message


@pytest.mark.slow
def test_allowed_host_names(empty_home: Path) -> None:
    options = ("--port", "0", "--allow-host", "Tunnel.example", "--allow-host", "other")
    with serving(empty_home, *options) as (_, line):
        url = f"{line.split()[-1]}/health"
        for host, status in (("tunnel.example:80", 200), ("other", 200), ("evil.example", 421)):
            assert httpx.get(url, headers={"host": host}).status_code == status


@pytest.mark.slow
def test_service_for_other_machines_accepts_any_host_name(empty_home: Path) -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - the subject of the test; the service has a key
    with serving(empty_home, "--port", "0", "--host", everywhere) as (_, line):
        url = line.split()[-1].replace(everywhere, "127.0.0.1")
        # Only host names: the service builds the addresses of authorize pages from them.
        for host, status in (("datapipe.internal", 200), ("[::1].evil.com", 400)):
            assert httpx.get(f"{url}/health", headers={"host": host}).status_code == status


@pytest.fixture(scope="module")
def public_only(folder: Path, partner: Partner) -> Iterator[Home]:
    content = seed(folder, partner.url)
    content["connections"].append(connection("meta", "http", url="http://169.254.169.254/latest"))
    with served(content, environment={"DATAPIPE_LOCAL_HTTP_DESTINATIONS": "public"}) as (service, _):
        yield Home(service, folder)


@pytest.mark.parametrize(
    ("destination", "expected"),
    [("endpoint", "127.0.0.1 is an address of this machine"), ("meta", "169.254.169.254 is a link-local")],
)
def test_run_to_a_forbidden_destination_fails(
    public_only: Home, partner: Partner, destination: str, expected: str
) -> None:
    public_only.load({1: "Ada"})
    error = public_only.failure(public_only.create(destination_connection_id=destination))
    assert expected in error
    assert "--http-destinations" in error
    assert partner.received == []
