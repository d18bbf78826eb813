"""The connection as a person meets it in Airflow's pages: the form, and the Test button."""

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
