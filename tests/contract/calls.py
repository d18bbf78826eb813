"""Arguments for every endpoint function, derived from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from airflow_provider_datapipe.api.request import Request

#: Valid values of these arguments. Others get a unique text, or True if the signature says ``bool``.
VALUES: dict[str, Any] = {
    "ability": "ReverseEtlDestination",
    "cron_expression": "1 2 * * *",
    "cron_schedule": "3 4 * * *",
    "elt_settings": {"sheet": "a"},
    "limit": 7,
    "materialization": "table",
    "operation": {"mode": "upsert", "mappings": [{"source_property_id": "a", "destination_property_id": "b"}]},
    "partial_settings": {"url": "b"},
    "record_ids": ["r1", "r2"],
    "redirect_uri": "https://app.example.com/connected",
    "reports": [{"elt_sync_id": "y", "name": "n", "query": "q"}],
    "settings": {"list": "c"},
    "sort_direction": "asc",
    "source_streams": [{"name": "orders"}],
    "start_date": "2020-01-01",
    "status": "draft",
    "sync_interval": "5 6 * * *",
    "transforms": [{"name": "n", "sql_template": "SELECT 1"}],
}

#: Optional arguments that are required by the default of another argument.
ALSO_NEEDED = {"reverse_etl_syncs.create": {"sync_interval"}, "reverse_etl_syncs.update": {"sync_interval"}}


def arguments(function: Callable[..., Request[Any]], *, all_of_them: bool, needed: set[str]) -> dict[str, Any]:
    """Return arguments for an endpoint function: all if ``all_of_them``, else the required ones and ``needed``."""
    return {
        name: VALUES.get(name, True if "bool" in str(parameter.annotation) else f"the {name}/é")
        for name, parameter in inspect.signature(function).parameters.items()
        if all_of_them or name in needed or parameter.default is parameter.empty
    }
