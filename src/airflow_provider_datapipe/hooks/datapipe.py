"""Hook for the service, with blocking methods for tasks and asynchronous methods for triggers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseHook

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import connections
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
    first_line,
)
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import RetryPolicy
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.flows import Flow, run_blocking, run_each
from airflow_provider_datapipe.hooks.connection import ConnectionExtra, read_extra, settings_of
from airflow_provider_datapipe.hooks.lineage import REPORTED, report
from airflow_provider_datapipe.runs import names
from airflow_provider_datapipe.runs.suggestions import suggest_ids

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.async_client import AsyncClient

T = TypeVar("T")


class DatapipeHook(BaseHook):
    """
    Hook that sends requests to a data pipeline service.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`.
    """

    conn_name_attr = "datapipe_conn_id"
    default_conn_name = "datapipe_default"
    conn_type = "datapipe"
    hook_name = "Datapipe"

    def __init__(self, datapipe_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.datapipe_conn_id = datapipe_conn_id
        #: True to report runs to Airflow's hook lineage. Operators disable it and report more detailed lineage.
        self.reports_lineage = True

    @cached_property
    def _connection(self) -> Any:
        return self.get_connection(self.datapipe_conn_id)

    @cached_property
    def extra(self) -> ConnectionExtra:
        """
        Extra fields of the connection.

        :raises ConfigurationError: if a field is invalid.
        """
        return read_extra(self._connection, ConnectionExtra)

    @cached_property
    def _client(self) -> Client:
        return Client(settings_of(self._connection, self.extra))

    @property
    def page_template(self) -> str | None:
        """
        URL template of the service's pages, None if unknown: the connection's ``link``, else that of a response.

        :raises ConfigurationError: if the connection is invalid.
        """
        return self.extra.link or self.named_pages

    @property
    def named_pages(self) -> str | None:
        """URL template of the service's pages from a response, None if no response has had one so far."""
        client: Client | None = self.__dict__.get("_client")
        return client.page_template if client else None

    def get_conn(self) -> Client:
        """
        Return the client, which is created once.

        :raises ConfigurationError: if the connection is invalid.
        """
        return self._client

    def close(self) -> None:
        """Close the HTTP connections of the client, if it was created."""
        if "_client" in self.__dict__:
            self._client.close()
            del self._client

    def send(self, request: Request[T]) -> T:
        """
        Send a request, and return its parsed response.

        :param request: the return value of an endpoint function.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        answer = self.get_conn().send(request)
        if self.reports_lineage and request.endpoint.name in REPORTED:
            report(self, request, answer)
        return answer

    def pages(self, request: Request[Page[T]], *, limit: int | None = None) -> Iterator[T]:
        """
        Iterate over the items of all pages of a list.

        :param request: the return value of the endpoint function of a list.
        :param limit: maximum number of items; None for all.
        :raises ValueError: if the limit is negative, at the first item.
        """
        return self.get_conn().pages(request, limit=limit)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow (:mod:`airflow_provider_datapipe.flows`), blocking. Add suggestions to the error of a wrong ID."""
        try:
            return run_blocking(flow, self.send, time.sleep, self.run_concurrently)
        except NotFoundError as error:
            run_blocking(suggest_ids(error), self.send, time.sleep)
            raise

    def run_concurrently(self, flows: Sequence[Flow[T]]) -> list[T]:
        """
        Run several flows, at most ``max_connections`` of the connection at a time.

        :return: the results of the flows, in the same order.
        """
        from airflow_provider_datapipe.concurrent_flows import FEW, run_concurrently

        if len(flows) <= FEW:
            return run_each(flows, self.run)
        return run_concurrently(self.get_conn().settings, flows)

    def find_stream(self, sync_id: str, name: str) -> EltStream:
        """
        Find a stream by its sync and its name.

        :raises NameLookupError: if none or several match. The error lists similar names.
        """
        return self.run(names.find_stream(sync_id, name))

    def find_orchestration(self, name: str) -> Orchestration:
        """
        Find an orchestration by its name.

        :raises NameLookupError: if none or several match. The error lists similar names or the matches.
        """
        return self.run(names.find_orchestration(name))

    def find_transform(self, name: str, folder_path: str | None = None) -> Transform:
        """
        Find a transform by its name and, if the name is not unique, its folder.

        :raises NameLookupError: if none or several match. The error lists similar names or the matches.
        """
        return self.run(names.find_transform(name, folder_path))

    async def asend(self, request: Request[T]) -> T:
        """
        Send one request from an event loop.

        For many requests, use the client of :meth:`aget_conn`, which reuses its connections.

        :param request: the return value of an endpoint function.
        :raises DatapipeError: see :mod:`airflow_provider_datapipe.api.errors`.
        """
        async with await self.aget_conn() as client:
            return await client.send(request)

    async def aget_conn(self) -> AsyncClient:
        """
        Create a client for the running event loop. The caller closes it.

        :raises ConfigurationError: if the connection is invalid.
        """
        # Imported here, because blocking tasks do not need its HTTP library.
        from airflow_provider_datapipe.api.async_client import AsyncClient

        return await AsyncClient.create(await self.aget_settings())

    async def aget_settings(self) -> Settings:
        """
        Read the connection from an event loop. The result is not cached.

        :raises ConfigurationError: if the connection is invalid.
        """
        connection: Any = await self.aget_connection(self.datapipe_conn_id)
        return settings_of(connection, read_extra(connection, ConnectionExtra))

    def test_connection(self) -> tuple[bool, str]:
        """Return True if the service accepts the API key, else False, and a message (Airflow's Test Connection)."""
        try:
            settings = settings_of(self._connection, self.extra)
            # The user waits at the form. Airflow gives the connection of the form a random ID.
            settings = replace(
                settings,
                timeout=min(settings.timeout, 15),
                retry=RetryPolicy(budget=0),
                connection="this connection",
            )
            with Client(settings) as client:
                client.send(connections.list_(limit=1))
        except (AuthenticationError, PermissionDeniedError) as error:
            reason = str(error).removeprefix(f"{error.cause}: ")
            return False, f"The service is there, but does not accept the API key. {reason}"
        except (RateLimitError, ServerError) as error:
            return False, f"The service is there, but has a problem. {error}"
        except (ApiError, ProtocolError) as error:
            return False, f"The response does not come from the service's management interface. {error}"
        except ConfigurationError as error:
            return False, first_line(error)
        except DatapipeError as error:
            return False, str(error)
        return True, f"The service at {settings.base_url} is healthy and accepts the API key."
