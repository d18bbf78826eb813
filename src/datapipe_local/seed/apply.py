"""Application of a seed to a home."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.base_model import Strict
from datapipe_local.common.errors import NotFoundError, ServiceError
from datapipe_local.common.names import snake_case
from datapipe_local.connectors.sources import SOURCES
from datapipe_local.seed.document import GivenDocument
from datapipe_local.seed.models import Seed
from datapipe_local.services import (
    connections,
    custom_reports,
    elt_stream_sources,
    elt_streams,
    elt_syncs,
    integrations,
    orchestrations,
    reverse_etl_definitions,
    transform_drafts,
    transform_publication,
    transform_repair,
    transform_triggers,
    version_control,
)
from datapipe_local.storage.ids import derived_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_datapipe.api.models.formats.yaml_reader import Location
    from datapipe_local.seed import models
    from datapipe_local.seed.document import Document
    from datapipe_local.services.context import Context
    from datapipe_local.storage.store import Store

M = TypeVar("M", bound=BaseModel)

#: Setting with a folder: relative to the seed file, so that a project can be moved.
_FOLDER = "path"
_SEEDS = "seeds"


class _NoFields(Strict):
    """Fields of the source of a stream that reads a custom report: none."""


def stored_seeds(store: Store) -> list[GivenDocument]:
    """Return all stored seeds, in the order in which they were first applied."""
    seeds: dict[str, Any] = store.setting(_SEEDS, {})
    return [GivenDocument(seed["content"], Path(seed["folder"]), name) for name, seed in seeds.items()]


def _sync_id(entry: models.EltSync) -> str:
    return entry.id or derived_id("elt_sync", entry.destination_schema_name)


class Seeding:
    """
    Application of one seed.

    A missing entry is created. An entry that has changed since it was last applied is updated. Other entries stay
    unchanged, with all later changes of the resource, so that applying a seed again changes nothing. An entry without
    an ID gets one derived from its names, so that it is found again. Resources that are not in the seed stay.

    :param context: The service.
    :param document: The seed.
    :raises SetupError: the seed is invalid.
    """

    def __init__(self, context: Context, document: Document | GivenDocument) -> None:
        self._context = context
        self._document = document
        self._seed = self._validated(Seed, dict(document.content), ())
        self._entries: set[tuple[str, str]] = set()
        #: Number of created or updated entries by kind.
        self.applied: Counter[str] = Counter()

    def apply(self) -> None:
        """
        Apply the whole seed or nothing.

        :raises SetupError: the seed is invalid.
        """
        with self._context.publishing:
            try:
                with self._context.store.transaction():
                    self.put_entries()
            except Exception:
                # The transaction of the store does not include the views of its transforms.
                transform_repair.repair(self._context)
                raise

    def put_entries(self) -> None:
        """
        Create or update the entries, in a transaction of the caller.

        :raises SetupError: the seed is invalid.
        """
        store, seed = self._context.store, self._seed
        for settings in (seed.runs, seed.limits, seed.responses):
            if settings is not None:
                for name, value in settings.model_dump().items():
                    store.set(name, value)
        if seed.transforms_managed_by_version_control is not None:
            store.set(version_control.SETTING, seed.transforms_managed_by_version_control)
        for index, connection in enumerate(seed.connections):
            self._connection(connection, ("connections", index))
        for index, orchestration in enumerate(seed.orchestrations):
            self._orchestration(orchestration, ("orchestrations", index))
        for index, sync in enumerate(seed.elt_syncs):
            self._elt_sync(sync, ("elt_syncs", index))
        self._custom_reports()
        for index, transform in enumerate(seed.transforms):
            self._transform(transform, ("transforms", index))
        for index, reverse in enumerate(seed.reverse_etl_syncs):
            self._reverse_etl_sync(reverse, ("reverse_etl_syncs", index))
        self._keep()

    def _keep(self) -> None:
        """Store the seed, so that it can be applied again after a reset."""
        store, document = self._context.store, self._document
        seeds: dict[str, Any] = store.setting(_SEEDS, {})
        # A seed that was applied before keeps its position.
        seeds[document.name] = {"folder": str(document.folder), "content": document.content}
        store.set(_SEEDS, seeds)

    def _connection(self, entry: models.Connection, location: Location) -> None:
        known = integrations.known()
        if entry.integration_id not in known:
            raise self._document.error(
                (*location, "integration_id"), f"{entry.integration_id!r} is not one of {', '.join(known)}"
            )
        model = known[entry.integration_id].settings
        settings = self._validated(model, entry.settings, (*location, "settings")).model_dump(exclude_none=True)
        if _FOLDER in settings:
            folder = Path(settings[_FOLDER]).expanduser()
            settings[_FOLDER] = str(self._document.folder / folder)
        connection_id = entry.id or derived_id("connection", entry.integration_id, entry.label)
        self._put(
            "connection",
            connection_id,
            location,
            connections.put,
            {"integration_id": entry.integration_id, "label": entry.label, "settings": settings},
        )

    def _orchestration(self, entry: models.Orchestration, location: Location) -> None:
        orchestration_id = entry.id or derived_id("orchestration", entry.name)
        self._put("orchestration", orchestration_id, location, orchestrations.put, entry.model_dump(exclude={"id"}))

    def _elt_sync(self, entry: models.EltSync, location: Location) -> None:
        sync_id = _sync_id(entry)
        own = {"id", "source_streams"}
        self._put(
            "elt_sync",
            sync_id,
            location,
            elt_syncs.put,
            entry.model_dump(exclude=own),
            digest_of=entry.model_dump(mode="json", exclude=own),
        )
        connection = self._context.store.connections.get(entry.connection_id)
        if connection is None:
            # The sync and its connection were deleted after the seed was applied: they stay deleted.
            return
        source = SOURCES[connection.integration_id]
        for index, stream in enumerate(entry.source_streams):
            place = (*location, "source_streams", index)
            if stream.custom_report_id is None:
                origin = self._validated(source.origin, stream.model_extra or {}, place)
                stream_id = stream.id or derived_id("elt_stream", sync_id, stream.name)
                self._elt_stream(stream, stream_id, place, sync_id, origin.model_dump(exclude_none=True))

    def _streams_of_reports(self, entry: models.EltSync, location: Location) -> None:
        for index, stream in enumerate(entry.source_streams):
            report_id, place = stream.custom_report_id, (*location, "source_streams", index)
            if report_id is None:
                continue
            self._validated(_NoFields, stream.model_extra or {}, place)
            report = self._context.store.custom_reports.get(report_id)
            if report is None and ("custom_report", report_id) in self._entries:
                # A client deleted the sync with its report after the seed was applied: they stay deleted.
                continue
            if report is None or report.elt_sync_id != _sync_id(entry):
                raise self._document.error(
                    (*place, "custom_report_id"), f"the sync has no custom report with the id {report_id[:100]!r}"
                )
            if report.source_stream_name != stream.name:
                raise self._document.error(
                    (*place, "name"), f"the stream of this custom report is {report.source_stream_name!r}"
                )
            stream_id = stream.id or derived_id("elt_stream", report_id)
            origin = elt_stream_sources.report_origin(report_id)
            self._elt_stream(stream, stream_id, place, report.elt_sync_id, origin)

    def _elt_stream(
        self, entry: models.SourceStream, stream_id: str, location: Location, sync_id: str, origin: dict[str, Any]
    ) -> None:
        options = entry.model_dump(include=set(type(entry).model_fields) - {"id", "name", "custom_report_id"})
        fields = {"elt_sync_id": sync_id, "name": entry.name, "origin": origin, "options": options}
        self._put("elt_stream", stream_id, location, elt_streams.put, fields)

    def _custom_reports(self) -> None:
        for index, report in enumerate(self._seed.custom_reports):
            self._custom_report(report, ("custom_reports", index))
        for index, sync in enumerate(self._seed.elt_syncs):
            self._streams_of_reports(sync, ("elt_syncs", index))

    def _custom_report(self, entry: models.CustomReport, location: Location) -> None:
        self._put(
            "custom_report",
            entry.id or derived_id("custom_report", entry.elt_sync_id, entry.name),
            location,
            custom_reports.put,
            {
                **entry.model_dump(exclude={"id"}),
                "source_stream_name": entry.source_stream_name or snake_case(entry.name),
            },
        )

    def _transform(self, entry: models.Transform, location: Location) -> None:
        transform_id = entry.id or derived_id("transform", entry.folder_path, entry.name)
        materialization = Materialization(entry.materialization)
        declared = entry.model_dump(exclude={"id", "publish", "cron_expression"})
        if not self._put(
            "transform",
            transform_id,
            location,
            transform_drafts.put,
            {**declared, "materialization": materialization},
            digest_of=entry.model_dump(exclude=None if entry.publish else {"publish"}),
        ):
            return
        if entry.publish:
            self._do(
                location,
                transform_publication.publish,
                transform_id,
                name=entry.name,
                folder_path=entry.folder_path,
                materialization=materialization,
                ignore_version_control=True,
            )
        self._do(
            location,
            transform_triggers.schedule,
            transform_id,
            cron_expression=entry.cron_expression,
            before_publication=materialization == Materialization.TABLE and not entry.publish,
        )

    def _reverse_etl_sync(self, entry: models.ReverseEtlSync, location: Location) -> None:
        sync_id = entry.id or derived_id(
            "reverse_etl_sync", entry.source_id, entry.destination_connection_id, entry.object_type_id
        )
        self._put("reverse_etl_sync", sync_id, location, reverse_etl_definitions.put, entry.model_dump(exclude={"id"}))

    def _put(
        self,
        kind: str,
        entry_id: str,
        location: Location,
        put: Callable[..., None],
        fields: dict[str, Any],
        *,
        digest_of: dict[str, Any] | None = None,
    ) -> bool:
        """Apply an entry if it has changed since it was last applied. Return True if it was applied."""
        seen = self._context.store.database
        digest = hashlib.sha256(json.dumps(digest_of or fields, sort_keys=True).encode()).hexdigest()
        if (kind, entry_id) in self._entries:
            raise self._document.error(location, f"{entry_id!r} occurs twice in the seed")
        self._entries.add((kind, entry_id))
        if seen.value("SELECT digest FROM seeded WHERE kind = ? AND id = ?", kind, entry_id) == digest:
            return False
        self._do(location, put, entry_id, **fields)
        seen.run("INSERT OR REPLACE INTO seeded (kind, id, digest) VALUES (?, ?, ?)", kind, entry_id, digest)
        self.applied[kind] += 1
        return True

    def _do(self, location: Location, rule: Callable[..., object], *arguments: Any, **fields: Any) -> None:
        try:
            rule(self._context, *arguments, **fields)
        except ServiceError as error:
            # Messages of the service start with the name of an invalid field.
            field, colon, message = error.message.partition(": ")
            if isinstance(error, NotFoundError):
                named = [name for name, value in fields.items() if value == error.resource_id]
                field, colon, message = next(iter(named), ""), ": ", error.message
            if colon and self._document.has((*location, field)):
                raise self._document.error((*location, field), message) from error
            raise self._document.error(location, error.message) from error

    def _validated(self, model: type[M], content: dict[str, Any], location: Location) -> M:
        try:
            return model.model_validate(content)
        except ValidationError as error:
            wrong = error.errors(include_url=False)
            # A misspelled field explains why another one is missing: report it first.
            first = next((one for one in wrong if one["type"] == "extra_forbidden"), wrong[0])
            raise self._document.error((*location, *first["loc"]), first["msg"]) from error
