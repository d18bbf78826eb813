"""Examples of the operators that open bridges to connections, and delete connections."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.connection import ConnectionBridgeCreateOperator, ConnectionDeleteOperator
from tests.support.operator_examples.example import Example

_REDIRECT = "https://app.example.com/connected"

SEED: dict[str, Any] = {
    "connections": [
        {"id": "connection.again", "integration_id": "files", "label": "Again", "settings": {"path": "{folder}"}},
        {"id": "connection.delete", "integration_id": "files", "label": "To delete", "settings": {"path": "{folder}"}},
        {"id": "connection.label", "integration_id": "files", "label": "By label", "settings": {"path": "{folder}"}},
    ]
}

EXAMPLES = [
    Example(
        "connection_bridge",
        ConnectionBridgeCreateOperator,
        {
            "new_label": "Sales",
            "integration_id": "files",
            "redirect_uri": _REDIRECT,
            "show_authorize_url": True,
        },
        {"integration_id": "files", "label": "Sales", "connection_id": None, "known_connection_ids": []},
        {"label": "Sales"},
    ),
    Example(
        "connection_bridge_again",
        ConnectionBridgeCreateOperator,
        {"connection_label": "Again", "redirect_uri": _REDIRECT, "show_authorize_url": True, "state": "given"},
        {"integration_id": "files", "label": "Again", "connection_id": "connection.again", "state": "given"},
        {"connection_id": "connection.again"},
    ),
    Example(
        "connection_delete",
        ConnectionDeleteOperator,
        {"connection_id": "connection.delete"},
        {"action": "deleted", "changed": True, "details": {"elt_syncs": [], "reverse_etl_syncs": []}},
        {"action": "none", "changed": False},
    ),
    Example(
        "connection_delete_by_label",
        ConnectionDeleteOperator,
        {"connection_label": "By label"},
        {"action": "deleted", "changed": True, "id": "connection.label", "name": "By label"},
        {"action": "none", "changed": False, "id": None},
    ),
]
