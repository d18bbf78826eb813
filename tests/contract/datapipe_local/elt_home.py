"""Service with one ELT sync, which each test resets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync
from tests.contract.datapipe_local.transform_calls import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.local_service import LocalService

Json = dict[str, Any]


class Home:
    """Service with one ELT sync of files, and helpers that run its streams."""

    def __init__(self, service: LocalService, folder: Path) -> None:
        answer = httpx.post(
            f"{service.base_url}/_local/reset", json={"seed": "drop"}, headers=service.headers, timeout=30
        )
        assert answer.is_success, answer.text
        self.service = service
        self.api = Api(service)
        self.folder = folder

    def seed(self, *streams: Json, **runs: Any) -> None:
        """Create these streams of files. Each reads the file with its name by default."""
        named = [each if "files" in each else {"file": f"{each['name']}.jsonl", **each} for each in streams]
        self.connect("files", {"path": str(self.folder)}, named, **runs)

    def connect(self, integration_id: str, settings: Json, streams: Sequence[Json], **runs: Any) -> None:
        """Create these streams of a source."""
        source = connection("data", integration_id, **settings)
        sync = elt_sync("shop", "data", ({"id": each["name"], **each} for each in streams))
        self.api.post("/_local/seed", {"runs": runs, "connections": [source], "elt_syncs": [sync]})

    def change(self, **stream: Any) -> list[Json]:
        """Add a stream or change its options. Return the added streams."""
        body = {"source_streams": [stream]}
        added: list[Json] = self.api.post("/elt_syncs/shop/source_streams", body, status=201)["source_streams"]
        return added

    def offers(self) -> dict[str, Json]:
        """Return the available source streams by name."""
        return {one["name"]: one for one in self.api.all_pages("/elt_syncs/shop/available_source_streams")}

    def write(self, name: str, *rows: Json) -> None:
        (self.folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def run(self, stream: str) -> tuple[int, str, str]:
        """Run a stream. Return its row count, operation mode and full sync trigger."""
        run = self.api.run_stream(stream)
        latest = self.latest(stream)
        assert run.status == "COMPLETED", latest["error_message"]
        assert latest["records_synced"] == run.rows_synced
        return int(run.rows_synced or 0), latest["operation_mode"], latest["full_sync_trigger"]

    def load(self, name: str, *rows: Json) -> tuple[int, str, str]:
        """Replace the rows of a stream, and run it."""
        self.write(name, *rows)
        return self.run(name)

    def failure(self, stream: str, *rows: Json) -> str:
        """Run a stream that fails, and return its error message. New rows replace those of the stream."""
        if rows:
            self.write(stream, *rows)
        assert self.api.run_stream(stream).status == "FAILED"
        return str(self.latest(stream)["error_message"])

    def latest(self, stream: str) -> Json:
        """Return the latest run of a stream."""
        return dict(self.api.stream_status("shop", stream)["latest_sync"])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the sorted rows of a query of the warehouse."""
        return sorted((tuple(row.values()) for row in rows(self.api, query)), key=str)
