"""Examples of the operators that open bridges to connections, and delete connections."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.connections import ConnectionBridgeCreateOperator, ConnectionDeleteOperator
from tests.support.operator_examples.example import UNCHANGED, Example, changed, files_connection

_SHOWN = {"redirect_uri": "https://app.example.com/connected", "show_authorize_url": True}
_LABELS = {"again": "Again", "delete": "To delete", "label": "By label"}

SEED: dict[str, Any] = {"connections": [files_connection(f"connection.{use}", label) for use, label in _LABELS.items()]}

EXAMPLES = [
    Example(
        "connection_bridge",
        ConnectionBridgeCreateOperator,
        {"new_label": "Sales", "integration_id": "files", **_SHOWN},
        {"integration_id": "files", "label": "Sales", "connection_id": None, "known_connection_ids": []},
        {"label": "Sales"},
    ),
    Example(
        "connection_bridge_again",
        ConnectionBridgeCreateOperator,
        {"connection_label": "Again", **_SHOWN, "state": "given"},
        {"integration_id": "files", "label": "Again", "connection_id": "connection.again", "state": "given"},
        {"connection_id": "connection.again"},
    ),
    Example(
        "connection_delete",
        ConnectionDeleteOperator,
        {"connection_id": "connection.delete"},
        changed("deleted", details={"elt_syncs": [], "reverse_etl_syncs": []}),
    ),
    Example(
        "connection_delete_by_label",
        ConnectionDeleteOperator,
        {"connection_label": "By label"},
        changed("deleted", id="connection.label", name="By label"),
        {**UNCHANGED, "id": None},
    ),
]
