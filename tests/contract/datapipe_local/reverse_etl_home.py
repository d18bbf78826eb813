"""Service with sources and destinations for tests of reverse ETL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl_syncs import FailedRecords, ReverseEtlSyncWithSettings
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import NIGHTLY, connection, elt_sync, operation, stream, transform

if TYPE_CHECKING:
    from tests.support.local_service import LocalService

Json = dict[str, Any]
Counts = tuple[Any, ...]

#: Mappings of the table of people.
PEOPLE: list[Json] = operation("id", "name")["mappings"]
CONTACTS = {
    "id": "contacts",
    "name": "Contacts",
    "operations": ["upsert", "update"],
    "properties": [
        {"id": "id", "type": "integer", "primary_key": True},
        {"id": "full_name", "name": "Full name", "required": True},
        {"id": "score", "type": "number", "readonly": True},
    ],
}


def seed(folder: Path, url: str) -> Json:
    (folder / "people.csv").write_text("id,name\n1,Ada\n2,Bob\n3,Cyd\n")
    ones = "SELECT 1 AS id, 'Ada' AS name"
    return {
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("files", "jsonl", path=str(folder / "out")),
            connection("endpoint", "http", url=url),
            connection("crm", "http", url=url, object_types=[CONTACTS, {"id": "notes"}]),
        ],
        "orchestrations": [NIGHTLY],
        "elt_syncs": [elt_sync("shop", "data", [stream(name, "people.csv") for name in ("people", "never", "spare")])],
        "transforms": [transform("ones", ones, publish=True), transform("draft", ones)],
    }


class Home:
    """
    Service with sources and destinations, without syncs.

    :param folder: The folder of the source files.
    """

    def __init__(self, service: LocalService, folder: Path) -> None:
        self.api = Api(service)
        #: The people of the warehouse.
        self.people: dict[int, str] = {}
        self._folder = folder

    def load(self, people: dict[int, str]) -> None:
        """Load these people into the warehouse."""
        self.write("".join(["id,name\n", *(f"{number},{name}\n" for number, name in people.items())]))
        self.people = people

    def write(self, csv: str) -> None:
        """Replace the source file of people, and load it into the warehouse."""
        self.people = {}
        (self._folder / "people.csv").write_text(csv)
        assert self.api.run_stream("people").status == "COMPLETED"

    def create(self, **changes: Any) -> str:
        """Create a sync with the default body and these changes, and return its ID."""
        return str(self.post("/reverse_etl_syncs", body(**changes), status=201)["id"])

    def post(self, path: str, content: Json, *, status: int = 200) -> Json:
        """Send a POST request whose response is a sync, and validate it with the model of the provider."""
        answer = self.api.post(path, content, status=status)
        ReverseEtlSyncWithSettings.model_validate(answer)
        return answer

    def activate(self, sync_id: str) -> None:
        self.api.post(f"/reverse_etl_syncs/{sync_id}/activate", status=204)

    def deactivate(self, sync_id: str) -> None:
        self.api.post(f"/reverse_etl_syncs/{sync_id}/deactivate", status=204)

    def update(self, sync_id: str, **changes: Any) -> Json:
        """Deactivate a sync, change it, and activate it again."""
        self.deactivate(sync_id)
        answer = self.post(f"/reverse_etl_syncs/{sync_id}", change(**changes))
        self.activate(sync_id)
        return answer

    def retry(self, sync_id: str, *record_ids: str) -> None:
        """Retry these failed records."""
        path = f"/reverse_etl_failed_records/retry?reverse_etl_sync_id={sync_id}"
        self.api.post(path, {"record_ids": record_ids}, status=204)

    def retry_all(self, sync_id: str) -> None:
        self.api.post(f"/reverse_etl_failed_records/retry_all?reverse_etl_sync_id={sync_id}", status=204)

    def run(self, sync_id: str, people: dict[int, str] | None = None) -> Counts:
        """
        Run a sync to success, and return its row counts: total, distinct, new, synced, failed.

        :param people: The new people of the warehouse. Unchanged by default.
        """
        if people is not None:
            self.load(people)
        run = self.api.run_reverse(sync_id)
        assert run.status == "COMPLETED", run.error
        return run.total_rows, run.distinct_rows, run.new_rows, run.synced_rows, run.failed_rows

    def failure(self, sync_id: str) -> str:
        """Run a sync that fails, and return the error of the run."""
        run = self.api.run_reverse(sync_id)
        assert run.status == "FAILED"
        return str(run.error)

    def failures(self, sync_id: str) -> dict[str, str]:
        """Return the errors of the failed records by record ID."""
        listed = self.api.get("/reverse_etl_failed_records", reverse_etl_sync_id=sync_id, limit=100)
        found = {one.record_id: one.error for one in FailedRecords.model_validate(listed).data}
        assert self.api.get("/reverse_etl_failed_records/count", reverse_etl_sync_id=sync_id) == {"count": len(found)}
        return found

    def file(self, name: str) -> Path:
        """Return the path of a file of the destination."""
        return self._folder / "out" / name

    def lines(self, name: str) -> list[Json]:
        """Return the records of a file of the destination."""
        return [json.loads(line) for line in self.file(name).read_text().splitlines()]


def body(mode: str = "upsert", mappings: list[Json] | None = None, **changes: Any) -> Json:
    """Return the request body of a sync from people to the file destination, with changes."""
    return {
        "source_id": "shop.people",
        "destination_connection_id": "files",
        "object_type_id": "people",
        "operation": {"mode": mode, "mappings": PEOPLE if mappings is None else mappings},
        "sync_interval": "0 4 * * *",
        **changes,
    }


def change(**changes: Any) -> Json:
    """Return the request body of a change, which has no source and no destination."""
    content = body(**changes)
    del content["source_id"], content["destination_connection_id"]
    return content
