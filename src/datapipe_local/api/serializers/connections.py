"""Serializers of connections, bridges and integrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.api.serializers import Json, present

if TYPE_CHECKING:
    from datapipe_local.services.integrations import Integration
    from datapipe_local.storage import records


def connection(record: records.Connection) -> Json:
    """Return ``ConnectionDto``, which excludes the settings because they may contain secrets."""
    return {
        "id": record.id,
        "integration_id": record.integration_id,
        "label": record.label,
        "created_at": record.created_at,
    }


def bridge(record: records.ConnectionBridge, *, authorize_url: str) -> Json:
    """Return ``ConnectionBridgeDto``."""
    return present(
        {
            "authorize_url": authorize_url,
            "expires_at": record.expires_at,
            "integration_id": record.integration_id,
            "connection_id": record.connection_id,
            "label": record.label,
        }
    )


def integration(one: Integration) -> Json:
    """Return ``IntegrationDto``."""
    return {
        "id": one.id,
        "name": one.name,
        "supports_start_date": one.supports_start_date,
        "abilities": list(one.abilities),
    }
