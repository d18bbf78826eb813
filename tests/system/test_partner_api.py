from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.system.partner_api import PartnerApi

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def partner() -> Iterator[httpx.Client]:
    with PartnerApi() as api, httpx.Client(base_url=api.address, trust_env=False) as client:
        yield client


def delay(carrier: str, month: int, flights: int = 100) -> dict[str, object]:
    return {"carrier": carrier, "month": month, "flights": flights, "mean_delay": 1.5}


def test_records_are_kept_by_carrier_and_month(partner: httpx.Client) -> None:
    for record in (delay("UA", 2), delay("AA", 1), delay("UA", 2, flights=99)):
        assert partner.post("/delays", json=record).status_code == 200
    assert partner.get("/delays").json() == {
        "accepted": [delay("AA", 1), delay("UA", 2, flights=99)],
        "requests": 3,
    }


def test_too_few_flights_are_never_accepted(partner: httpx.Client) -> None:
    for _ in range(2):
        answer = partner.post("/delays", json=delay("OO", 1, flights=4))
        assert answer.status_code == 422
        assert answer.json() == {"message": "too few flights to publish: 4, at least 10"}
    assert partner.get("/delays").json()["accepted"] == []


def test_an_unknown_carrier_is_accepted_in_the_second_run(
    partner: httpx.Client,
) -> None:
    records = [delay("HA", month) for month in range(1, 13)]
    for record in records:
        answer = partner.post("/delays", json=record)
        assert answer.status_code == 409
        assert answer.json() == {"message": "carrier HA is being registered, send again later"}
    assert [partner.post("/delays", json=record).status_code for record in records] == [200] * 12
    assert partner.post("/delays", json=delay("9E", 1)).status_code == 409


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[]", b'{"carrier": "UA"}', b'{"carrier":"UA","month":1,"flights":"x"}']
)
def test_what_is_no_record_is_refused(partner: httpx.Client, body: bytes) -> None:
    assert partner.post("/delays", content=body).status_code == 400


def test_other_paths_do_not_exist(partner: httpx.Client) -> None:
    assert partner.post("/other", json=delay("UA", 1)).status_code == 404
    assert partner.get("/other").status_code == 404
    assert partner.get("/delays").json()["requests"] == 0
