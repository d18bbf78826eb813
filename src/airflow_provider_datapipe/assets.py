"""
Assets that runs of the service update: their names, and the extra of their events.

The URI of an asset is ``datapipe://<connection>/<collection>/<id>``, such as
``datapipe://datapipe_default/elt_streams/orders``. The connection ID distinguishes several services. The name of an
asset is readable, such as ``ELT stream orders``. DAG files import this module.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote

from airflow.sdk import Asset, AssetAlias

from airflow_provider_datapipe.arguments import checked, is_literal
from airflow_provider_datapipe.links import COLLECTIONS

if TYPE_CHECKING:
    from airflow.sdk import AssetWatcher

log = logging.getLogger(__name__)
SCHEME = "datapipe"
DEFAULT_CONNECTION = "datapipe_default"
#: IDs that are used unchanged in names. Other IDs are percent-encoded.
_READABLE = re.compile(r"[\w.:@ +-]+", re.ASCII)
#: Group of the assets, and the nouns in their names.
GROUP = "datapipe"
_NOUNS = {
    "connections": "Connection",
    "elt_streams": "ELT stream",
    "elt_syncs": "ELT sync",
    "orchestrations": "Orchestration",
    "reverse_etl_syncs": "Reverse ETL sync",
    "transforms": "Transform",
}
#: Number of parts in the path of an asset's URI: the collection and the ID.
_PARTS = 2
#: Watchers of the assets that this process has created, by URI. Airflow keeps only the watchers of the definition that
#: it reads last, so all definitions of an asset share their watchers.
_WATCHERS: dict[str, list[AssetWatcher]] = {}
#: Fields of which each event of a run has at least one.
_OF_AN_EVENT = frozenset({"run_id", "resource_id"})
#: Fields of each stream in the event of a sync.
_OF_A_STREAM = ("run_id", "outcome", "rows_synced")


@checked
def elt_stream_asset(
    stream_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of the table that an ELT stream loads.

    :param stream_id: ID of the stream.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers, each with a trigger such as
        :class:`~airflow_provider_datapipe.triggers.events.EltStreamRunEventTrigger`.
    """
    return asset_of("elt_stream", stream_id, datapipe_conn_id, watchers)


@checked
def elt_sync_asset(
    sync_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of all streams of an ELT sync.

    :param sync_id: ID of the sync.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers.
    """
    return asset_of("elt_sync", sync_id, datapipe_conn_id, watchers)


@checked
def transform_asset(
    transform_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of the view or table of a transform.

    :param transform_id: ID of the transform.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers.
    """
    return asset_of("transform", transform_id, datapipe_conn_id, watchers)


@checked
def orchestration_asset(
    orchestration_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of an orchestration.

    :param orchestration_id: ID of the orchestration.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers.
    """
    return asset_of("orchestration", orchestration_id, datapipe_conn_id, watchers)


@checked
def reverse_etl_sync_asset(
    reverse_etl_sync_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of the records that a reverse ETL sync writes to its destination.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers.
    """
    return asset_of("reverse_etl", reverse_etl_sync_id, datapipe_conn_id, watchers)


def asset_of(kind: str, resource_id: str, datapipe_conn_id: str, watchers: Sequence[AssetWatcher] = ()) -> Asset:
    """
    Return the asset of a resource.

    :param kind: kind of the resource, as in the result of a run; or ``elt_sync``.
    :param resource_id: ID of the resource.
    :param datapipe_conn_id: the connection ID.
    :param watchers: asset watchers.
    :raises ValueError: if an ID is empty.
    """
    if not resource_id or not datapipe_conn_id:
        raise ValueError("an asset requires an ID and a connection ID: neither may be empty")
    collection, quoted = COLLECTIONS[kind], quote(resource_id, safe="")
    # Airflow accepts ASCII names only, and each name for one URI only.
    name = f"{_NOUNS[collection]} {resource_id if _READABLE.fullmatch(resource_id) else quoted}"
    if datapipe_conn_id != DEFAULT_CONNECTION:
        name += f" ({datapipe_conn_id})"
    uri = f"{SCHEME}://{quote(datapipe_conn_id, safe='')}/{collection}/{quoted}"
    return Asset(
        name=name,
        uri=uri,
        group=GROUP,
        extra={"connection": datapipe_conn_id, "collection": collection, "id": resource_id},
        watchers=_shared_watchers(uri, watchers),
    )


def _shared_watchers(uri: str, watchers: Sequence[AssetWatcher]) -> list[AssetWatcher]:
    """
    Return the watchers of all definitions of an asset, as one list for all of them.

    :param uri: URI of the asset.
    :param watchers: further watchers. They replace earlier ones with the same names.
    """
    shared = _WATCHERS.setdefault(uri, [])
    names = {watcher.name for watcher in watchers}
    shared[:] = [*(watcher for watcher in shared if watcher.name not in names), *watchers]
    return shared


def alias_of(kind: str) -> AssetAlias:
    """
    Return the alias for assets whose IDs are known only when the task runs.

    :param kind: kind of the resources.
    """
    return AssetAlias(name=f"{SCHEME}-{COLLECTIONS[kind]}")


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """
    Check the URI of an asset. Airflow calls this for each URI that begins with ``datapipe:``.

    :raises ValueError: if no resource can have this URI, so that the asset would never get an event.
    """
    path = parts.path.strip("/").split("/")
    known = sorted({*COLLECTIONS.values()} - {"connections"})
    if not parts.netloc or len(path) != _PARTS or path[0] not in known or not path[1] or parts.query:
        raise ValueError(
            "the URI of a datapipe asset must be datapipe://<connection>/<collection>/<id>, with one of the "
            f"collections {', '.join(known)}; use the functions of airflow_provider_datapipe.assets"
        )
    return parts._replace(path="/" + "/".join(path))


def run_of(event: Any) -> dict[str, Any]:
    """
    Return the run of an asset event, from a task or from a watcher.

    :param event: one of ``triggering_asset_events[asset]``.
    :returns: the result of the run; for an ELT sync, the fields of
        :class:`~airflow_provider_datapipe.runs.elt_sync.SyncResult`. Empty if the event has no run, for example if a
        task declares the asset as its outlet, but does not run the resource, or if a user has created the event.
    """
    extra: dict[str, Any] = event.extra or {}
    payload = extra.get("payload")
    found = payload if isinstance(payload, dict) else extra
    # Airflow adds other keys to the events that users create.
    return dict(found) if _OF_AN_EVENT & found.keys() else {}


def declared(kind: str, resource_id: Any, datapipe_conn_id: Any, given: Iterable[Any] = ()) -> list[Any]:
    """
    Return the outlets of a task, including the asset of its resource.

    :param kind: kind of the resource.
    :param resource_id: ID of the resource; None or a template if it is not known when the DAG is parsed.
    :param datapipe_conn_id: the connection ID.
    :param given: the outlets that the task declares.
    """
    outlets = list(given)
    wanted: list[Asset | AssetAlias] = []
    if alias_of(kind) not in outlets:
        # A mapped task has the alias only, because Airflow does not know the assets of its mapped instances.
        if is_literal(resource_id) and is_literal(datapipe_conn_id):
            asset = asset_of(kind, resource_id, datapipe_conn_id)
            # A reference does not define the asset, and would cause a second event.
            outlets = [each for each in outlets if isinstance(each, Asset) or not _is_outlet_of(each, asset)]
            if not any(_is_outlet_of(each, asset) for each in outlets):
                wanted.append(asset)
        else:
            wanted.append(alias_of(kind))
    if kind == "elt_sync":
        wanted.append(alias_of("elt_stream"))
    return outlets + [each for each in wanted if each not in outlets]


def _is_outlet_of(outlet: Any, asset: Asset) -> bool:
    """Return True for the asset, for a reference to it, and for an asset of its URI with another name or group."""
    return getattr(outlet, "uri", None) == asset.uri or outlet == Asset.ref(name=asset.name)


def report(outlets: Iterable[Any], events: Any, datapipe_conn_id: str, result: Any) -> None:
    """
    Set the extra of the asset events of a successful task, and add the assets that its run determined.

    :param outlets: outlets of the task.
    :param events: ``outlet_events`` of Airflow's context.
    :param datapipe_conn_id: the connection ID.
    :param result: the result of the task.
    """
    declared_outlets = list(outlets)
    aliases = {each.name for each in declared_outlets if isinstance(each, AssetAlias)}
    for kind, resource_id, extra in _updated_resources(result):
        asset, alias = asset_of(kind, resource_id, datapipe_conn_id), alias_of(kind)
        found = [_event_of(events, each) for each in declared_outlets if _is_outlet_of(each, asset)]
        found = [event for event in found if event is not None]
        for event in found:
            event.extra = extra
        if not found and alias.name in aliases:
            events[alias].add(asset, extra=extra)


def _event_of(events: Any, outlet: Any) -> Any:
    """Return the event of an outlet; None for a reference to an asset that Airflow does not find."""
    from airflow.sdk.exceptions import AirflowRuntimeError

    try:
        return events[outlet]
    except AirflowRuntimeError as error:
        # Not raised, because a retry would run the resource again.
        log.warning("The asset event of outlet %s contains no result of the run: %s", outlet, error)
        return None


def _updated_resources(result: Any) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """Return the updated resources: kind, ID, and extra of the event."""
    if "streams" in result:
        yield from _resources_of_sync(result)
    elif "transforms" in result:
        for name, item in result["transforms"].items():
            if item["published"] and item["result"] != "failed":
                reported = {"kind": "transform", "resource_id": item["id"], "name": name, "run_id": None}
                yield "transform", item["id"], reported | {"outcome": "succeeded", "rows_synced": None}
    elif result.get("published", True):
        yield result["kind"], result["resource_id"], _event_fields(result)


def _resources_of_sync(result: Any) -> Iterable[tuple[str, str, dict[str, Any]]]:
    streams: dict[str, Any] = result["streams"]
    brief = {name: {key: stream[key] for key in _OF_A_STREAM} for name, stream in streams.items()}
    sync_id = result["sync_id"]
    yield "elt_sync", sync_id, {**result, "kind": "elt_sync", "resource_id": sync_id, "streams": brief}
    for stream in streams.values():
        # A failed stream has not updated its table.
        if stream["outcome"] == "succeeded":
            yield stream["kind"], stream["resource_id"], _event_fields(stream) | {"sync_id": sync_id}


def _event_fields(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the payload of a watcher's event contains as well."""
    return {name: value for name, value in result.items() if name != "attached"}
