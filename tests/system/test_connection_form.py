"""The connection in the pages of Airflow: the form, and the Test button."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.get_provider_info import CONNECTION_FIELDS
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.system.components import AirflowComponents


@since("3.2", "forms of connections without code")
def test_the_form_has_every_field(airflow: AirflowComponents) -> None:
    forms: list[dict[str, Any]] = airflow.api.request("GET", "/connections/hook_meta", base="/ui")
    (form,) = [each for each in forms if each["connection_type"] == "datapipe"]
    assert set(form["extra_fields"]) == set(CONNECTION_FIELDS)
    assert form["standard_fields"]["password"]["title"] == "API key"
    assert form["standard_fields"]["host"]["title"] == "Base address"
    assert form["standard_fields"]["host"]["placeholder"] == "https://api.example.com"
    assert form["standard_fields"]["password"]["placeholder"] == "API key that the service issued"
    assert form["standard_fields"]["port"]["placeholder"] == "Only if the base address has none"
    assert form["standard_fields"]["login"]["hidden"]


@pytest.mark.parametrize(
    ("case", "healthy", "says"),
    [
        ("healthy", True, "is healthy and accepts the API key"),
        ("wrong key", False, "does not accept the API key"),
        ("wrong address", False, "got no answer from"),
        ("another server", False, "Something else than the service"),
    ],
)
def test_the_test_button(
    airflow: AirflowComponents, service: LocalService, case: str, healthy: bool, says: str
) -> None:
    connection = {
        "connection_id": "tried",
        "conn_type": "datapipe",
        "host": {"wrong address": "http://127.0.0.1:9", "another server": airflow.address}.get(case, service.base_url),
        "password": "wrong" if case == "wrong key" else service.api_key,
    }
    answer = airflow.api.request("POST", "/connections/test", json=connection)
    assert (answer["status"], says in answer["message"]) == (healthy, True), answer
    assert service.api_key not in answer["message"]


def test_saved_connection_with_the_port_of_its_address(airflow: AirflowComponents, service: LocalService) -> None:
    saved = {
        "connection_id": "saved_with_port",
        "conn_type": "datapipe",
        "host": service.base_url,
        "port": int(service.base_url.rpartition(":")[2]),
        "password": service.api_key,
    }
    airflow.api.request("POST", "/connections", json=saved)
    # The form sends this in place of a secret that is not changed.
    answer = airflow.api.request("POST", "/connections/test", json={**saved, "password": "***"})
    airflow.api.request("DELETE", "/connections/saved_with_port")
    assert answer["status"], answer


def test_new_connection_with_port_zero(airflow: AirflowComponents, service: LocalService) -> None:
    connection = {"connection_id": "tried", "conn_type": "datapipe", "host": service.base_url, "port": 0}
    answer = airflow.api.request("POST", "/connections/test", json={**connection, "password": service.api_key})
    assert answer["status"], answer
