"""Connections in the pages of Airflow: forms, and Test Connection."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.get_provider_info import CONNECTION_FIELDS, WEBHOOK_FIELDS
from tests.support.airflow_versions import since
from tests.support.local_service import LocalService
from tests.system.components import AirflowComponents
from tests.system.conftest import saved


@since("3.2", "forms of connections without code")
def test_forms_contain_all_fields(airflow: AirflowComponents) -> None:
    forms: list[dict[str, Any]] = airflow.api.request("GET", "/connections/hook_meta", base="/ui")
    datapipe, webhook = (
        next(form for form in forms if form["connection_type"] == kind) for kind in ("datapipe", "datapipe_webhook")
    )
    assert set(datapipe["extra_fields"]) == set(CONNECTION_FIELDS)
    fields = datapipe["standard_fields"]
    assert {name: (fields[name]["title"], fields[name]["placeholder"]) for name in ("host", "password")} == {
        "host": ("Base address", "https://api.example.com"),
        "password": ("API key", "API key that the service issued"),
    }
    assert fields["port"]["placeholder"] == "Only if the base address has none"
    assert fields["login"]["hidden"]

    assert set(webhook["extra_fields"]) == set(WEBHOOK_FIELDS)
    fields = webhook["standard_fields"]
    assert (fields["host"]["title"], fields["password"]["title"]) == ("Address", "Password, token or signing secret")
    assert fields["url_schema"]["hidden"]
    assert not (fields["login"] or {}).get("hidden")


@pytest.mark.parametrize(
    ("case", "healthy", "says"),
    [
        ("healthy", True, "is healthy and accepts the API key"),
        ("wrong key", False, "does not accept the API key"),
        ("wrong address", False, "got no answer from"),
        ("another server", False, "The response does not come from the service"),
    ],
)
def test_test_connection(
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
    port = int(service.base_url.rpartition(":")[2])
    fields = {"conn_type": "datapipe", "host": service.base_url, "port": port}
    with saved(airflow, "saved_with_port", **fields, password=service.api_key):
        # The form sends this placeholder for an unchanged secret.
        tried = {"connection_id": "saved_with_port", **fields, "password": "***"}
        answer = airflow.api.request("POST", "/connections/test", json=tried)
    assert answer["status"], answer


def test_new_connection_with_port_zero(airflow: AirflowComponents, service: LocalService) -> None:
    connection = {"connection_id": "tried", "conn_type": "datapipe", "host": service.base_url, "port": 0}
    answer = airflow.api.request("POST", "/connections/test", json={**connection, "password": service.api_key})
    assert answer["status"], answer
