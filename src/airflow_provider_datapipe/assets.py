"""
Assets that runs of the service update: their names, and the extra of their events.

An asset's URI is ``datapipe://<connection>/<collection>/<id>``, such as ``datapipe://datapipe_default/elt_streams/orders``.
The connection's id tells two services apart. Its name is for people: ``ELT stream orders``. DAG files import this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote

from airflow.sdk import Asset, AssetAlias

from airflow_provider_datapipe.arguments import checked, is_literal
from airflow_provider_datapipe.links import COLLECTIONS

if TYPE_CHECKING:
    from airflow.sdk import AssetWatcher

SCHEME = "datapipe"
DEFAULT_CONNECTION = "datapipe_default"
#: IDs that stand in names as they are.
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
#: What a path of an asset has: the collection and the id.
_PARTS = 2
#: What a sync's event tells of each of its streams.
_OF_A_STREAM = ("run_id", "outcome", "rows_synced")


@checked
def elt_stream_asset(
    stream_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Name the table that an ELT stream loads.

    :param stream_id: id of the stream.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides, such as an
        :class:`~airflow_provider_datapipe.triggers.events.EltStreamRunEventTrigger`.
    """
    return asset_of("elt_stream", stream_id, datapipe_conn_id, watchers)


@checked
def elt_sync_asset(
    sync_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of all streams of an ELT sync.

    :param sync_id: id of the sync.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides.
    """
    return asset_of("elt_sync", sync_id, datapipe_conn_id, watchers)


@checked
def transform_asset(
    transform_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Name the view or table that a transform becomes.

    :param transform_id: id of the transform.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides.
    """
    return asset_of("transform", transform_id, datapipe_conn_id, watchers)


@checked
def orchestration_asset(
    orchestration_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of an orchestration.

    :param orchestration_id: id of the orchestration.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides.
    """
    return asset_of("orchestration", orchestration_id, datapipe_conn_id, watchers)


@checked
def reverse_etl_sync_asset(
    reverse_etl_sync_id: str, *, datapipe_conn_id: str = DEFAULT_CONNECTION, watchers: Sequence[AssetWatcher] = ()
) -> Asset:
    """
    Return the asset of the records that a reverse ETL sync writes to its destination.

    :param reverse_etl_sync_id: id of the reverse ETL sync.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides.
    """
    return asset_of("reverse_etl", reverse_etl_sync_id, datapipe_conn_id, watchers)


def asset_of(kind: str, resource_id: str, datapipe_conn_id: str, watchers: Sequence[AssetWatcher] = ()) -> Asset:
    """
    Name the asset of a thing.

    :param kind: what kind of thing it is, as a run's result has it; or ``elt_sync``.
    :param resource_id: its id.
    :param datapipe_conn_id: the connection.
    :param watchers: what watches it besides.
    :raises ValueError: the id or the connection is empty.
    """
    if not resource_id or not datapipe_conn_id:
        raise ValueError("an asset is named after an id and a connection: neither may be empty")
    collection, quoted = COLLECTIONS[kind], quote(resource_id, safe="")
    # Airflow takes ASCII names only, and each for one URI.
    name = f"{_NOUNS[collection]} {resource_id if _READABLE.fullmatch(resource_id) else quoted}"
    if datapipe_conn_id != DEFAULT_CONNECTION:
        name += f" ({datapipe_conn_id})"
    return Asset(
        name=name,
        uri=f"{SCHEME}://{quote(datapipe_conn_id, safe='')}/{collection}/{quoted}",
        group=GROUP,
        extra={"connection": datapipe_conn_id, "collection": collection, "id": resource_id},
        watchers=list(watchers),
    )


def alias_of(kind: str) -> AssetAlias:
    """
    Return the alias for assets whose IDs are known only when the task runs.

    :param kind: what kind of thing it is.
    """
    return AssetAlias(name=f"{SCHEME}-{COLLECTIONS[kind]}")


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """
    Check the URI of an asset; Airflow calls this for each that begins with ``datapipe:``.

    :raises ValueError: nothing has such a URI, so that no event would ever come.
    """
    path = parts.path.strip("/").split("/")
    known = sorted({*COLLECTIONS.values()} - {"connections"})
    if not parts.netloc or len(path) != _PARTS or path[0] not in known or not path[1] or parts.query:
        raise ValueError(
            f"the URI of an asset of the service is datapipe://<connection>/<collection>/<id>, the collection one of "
            f"{', '.join(known)}; take it from the functions of airflow_provider_datapipe.assets"
        )
    return parts._replace(path="/" + "/".join(path))


def run_of(event: Any) -> dict[str, Any]:
    """
    Return the run of an asset event, from a task or from a watcher.

    :param event: one of ``triggering_asset_events[asset]``.
    :returns: a run's result; of an ELT sync, what :class:`~airflow_provider_datapipe.runs.sync.SyncResult` has; empty
        where it tells of none, as that of an outlet that a task names itself and has not made new.
    """
    extra: dict[str, Any] = event.extra or {}
    payload = extra.get("payload")
    return dict(payload) if isinstance(payload, dict) else dict(extra)


def declared(kind: str, resource_id: Any, datapipe_conn_id: Any, given: Iterable[Any] = ()) -> list[Any]:
    """
    Return the outlets of a task, to emit asset events for them.

    :param kind: what kind of thing it works on.
    :param resource_id: its id, where it was given one.
    :param datapipe_conn_id: the connection.
    :param given: the outlets that it has.
    """
    outlets = list(given)
    # One of them may have a name or a group of its own, and is the same thing all the same.
    uris = {each.uri for each in outlets if isinstance(each, Asset)}
    wanted: list[Asset | AssetAlias] = []
    if alias_of(kind) not in outlets:
        # A task that is mapped has the alias: Airflow has not heard of the asset that this one of it has.
        known = is_literal(resource_id) and is_literal(datapipe_conn_id)
        wanted.append(asset_of(kind, resource_id, datapipe_conn_id) if known else alias_of(kind))
    if kind == "elt_sync":
        wanted.append(alias_of("elt_stream"))
    return outlets + [each for each in wanted if each not in outlets and getattr(each, "uri", None) not in uris]


def report(outlets: Iterable[Any], events: Any, datapipe_conn_id: str, result: Any) -> None:
    """
    Set the extra of the asset events of a successful task, and add the assets that its run determined.

    :param outlets: the task's.
    :param events: ``outlet_events`` of Airflow's context.
    :param datapipe_conn_id: the connection.
    :param result: the result of the task.
    """
    declared_assets = [each for each in outlets if isinstance(each, Asset)]
    aliases = {each.name for each in outlets if isinstance(each, AssetAlias)}
    for kind, resource_id, extra in _news(result):
        asset, alias = asset_of(kind, resource_id, datapipe_conn_id), alias_of(kind)
        found = [each for each in declared_assets if each.uri == asset.uri]
        for each in found:
            events[each].extra = extra
        if not found and alias.name in aliases:
            events[alias].add(asset, extra=extra)


def _news(result: Any) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """Return the updated resources: kind, ID, and extra of the event."""
    if "streams" in result:
        yield from _news_of_sync(result)
    elif "transforms" in result:
        for name, item in result["transforms"].items():
            if item["published"] and item["result"] != "failed":
                reported = {"kind": "transform", "resource_id": item["id"], "name": name, "run_id": None}
                yield "transform", item["id"], reported | {"outcome": "succeeded", "rows_synced": None}
    elif result.get("published", True):
        yield result["kind"], result["resource_id"], _reported(result)


def _news_of_sync(result: Any) -> Iterable[tuple[str, str, dict[str, Any]]]:
    streams: dict[str, Any] = result["streams"]
    brief = {name: {key: stream[key] for key in _OF_A_STREAM} for name, stream in streams.items()}
    sync_id = result["sync_id"]
    yield "elt_sync", sync_id, {**result, "kind": "elt_sync", "resource_id": sync_id, "streams": brief}
    for stream in streams.values():
        # One that has failed beside others has made nothing new.
        if stream["outcome"] == "succeeded":
            yield stream["kind"], stream["resource_id"], _reported(stream) | {"sync_id": sync_id}


def _reported(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the payload of a watcher's event contains as well."""
    return {name: value for name, value in result.items() if name != "attached"}
