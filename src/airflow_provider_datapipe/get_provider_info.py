"""Metadata of this provider for Airflow. Plain data, because Airflow reads it at each start."""

from __future__ import annotations

from typing import Any

#: The connection's further fields: name -> form field. :mod:`.hooks.connection` reads all of them.
CONNECTION_FIELDS: dict[str, dict[str, Any]] = {
    "poll_interval": {
        "label": "Poll interval (s)",
        "description": "Seconds between two polls of a run, unless the operator sets it. Empty: depends on the "
        "duration of earlier runs of the resource.",
        "schema": {"type": ["number", "null"], "default": None, "exclusiveMinimum": 0},
    },
    "max_poll_interval": {
        "label": "Longest poll interval (s)",
        "description": "Maximum seconds between two polls of a run without a fixed poll interval.",
        "schema": {"type": ["number", "null"], "default": 60, "minimum": 2},
    },
    "defer_after": {
        "label": "Defer after (s)",
        "description": "Seconds that a deferrable task waits for a run in the worker before it defers. 0: defer at "
        "once. Empty: depends on the duration of earlier runs.",
        "schema": {"type": ["number", "null"], "default": None, "minimum": 0},
    },
    "timeout": {
        "label": "Request timeout (s)",
        "description": "Maximum seconds until the service responds to a request.",
        "schema": {"type": ["number", "null"], "default": 60, "exclusiveMinimum": 0},
    },
    "retry_budget": {
        "label": "Retry budget (s)",
        "description": "Seconds during which a failed request is repeated if that is safe. 0: no repetition.",
        "schema": {"type": ["number", "null"], "default": 60, "minimum": 0},
    },
    "max_connections": {
        "label": "Requests at a time",
        "description": "Maximum number of concurrent requests of one task, or of all triggers of one triggerer.",
        "schema": {"type": ["integer", "null"], "default": 16, "minimum": 1},
    },
    "max_requests_per_second": {
        "label": "Requests per second",
        "description": "Maximum number of requests per second of all tasks and triggers on a machine. [datapipe] "
        "rate_limit_shares divides it among several machines. Empty: no limit.",
        "schema": {"type": ["number", "null"], "default": None, "exclusiveMinimum": 0},
    },
    "proxy": {
        "label": "Proxy",
        "description": "URL of an HTTP proxy, instead of the proxy of the environment.",
        "schema": {"type": ["string", "null"]},
    },
    "ca_bundle": {
        "label": "CA bundle",
        "description": "Path of a file with the trusted certificates, instead of the default ones.",
        "schema": {"type": ["string", "null"]},
    },
    "allow_plain_http": {
        "label": "Allow plain http",
        "description": "Allow a URL without TLS on another machine. The API key is then sent unencrypted.",
        "schema": {"type": ["boolean", "null"], "default": False},
    },
    "link": {
        "label": "Link template",
        "description": "URL of a resource's page on the service, for the link of a task. {resource} is the "
        "collection, such as elt_syncs, {id} the ID, and {run_id} the run, if it is known. Empty: no links.",
        "schema": {"type": ["string", "null"]},
    },
    "lineage_warehouse": {
        "label": "Warehouse in lineage",
        "description": "Namespace of the warehouse in OpenLineage, and the prefix of schemas: "
        "snowflake://organization-account/DATABASE. Empty: the namespace of tables is that of the service.",
        "schema": {"type": ["string", "null"]},
    },
}

#: Further fields of a webhook connection. :mod:`.hooks.webhook_connection` reads all of them.
WEBHOOK_FIELDS: dict[str, dict[str, Any]] = {
    "authentication": {
        "label": "Authentication",
        "description": "none; basic: login and password; token: the header contains the password; hmac: the header "
        "contains a signature of the body, whose key is the password.",
        "schema": {"type": "string", "enum": ["none", "basic", "token", "hmac"], "default": "none"},
    },
    "header": {
        "label": "Header",
        "description": "Name of the header for the token or the signature, such as X-Signature.",
        "schema": {"type": ["string", "null"], "default": ""},
    },
    "timeout": CONNECTION_FIELDS["timeout"],
    "retry_budget": {
        "label": "Retry budget (s)",
        "description": "Seconds during which a request without a response, or with a temporary error, is repeated. 0: "
        "no repetition.",
        "schema": {"type": ["number", "null"], "default": 60, "minimum": 0},
    },
    "proxy": CONNECTION_FIELDS["proxy"],
    "ca_bundle": CONNECTION_FIELDS["ca_bundle"],
    "allow_plain_http": {
        "label": "Allow plain http",
        "description": "Allow a URL without TLS on another machine. Data and credentials are then sent unencrypted.",
        "schema": {"type": ["boolean", "null"], "default": False},
    },
}


#: Decorators by their names below ``@task``.
TASK_DECORATORS = {
    "datapipe": "request.request_task",
    "datapipe_query": "query.query_task",
    "datapipe_query_check": "query.query_check_task",
    "datapipe_query_value_check": "query.query_value_check_task",
    "datapipe_query_threshold_check": "query.query_threshold_check_task",
    "datapipe_webhook": "webhook.webhook_task",
}

#: Section of the Airflow configuration. :mod:`.operators.deferral` and :mod:`.hooks.connection` read the options.
CONFIGURATION: dict[str, Any] = {
    "datapipe": {
        "description": "Options of airflow-provider-datapipe.",
        "options": {
            "defer_after": {
                "description": "Seconds that a deferrable task waits for a run in the worker before it defers, unless "
                "the task or its connection sets it. 0 defers at once. Empty: depends on the duration of earlier runs.",
                "version_added": "0.1.0",
                "type": "float",
                "example": "5",
                "default": None,
            },
            "minimum_deferral_time": {
                "description": "Seconds from a deferral until its trigger sends an event at the earliest. A busy "
                "scheduler can fail a task whose trigger fires sooner. Empty: 0 where Airflow and the executor are "
                "known to be safe, otherwise [workers] min_heartbeat_interval + 3.",
                "version_added": "0.1.0",
                "type": "float",
                "example": "8",
                "default": None,
            },
            "rate_limit_shares": {
                "description": "Number of machines or containers that send requests to the service: those of workers "
                "and of triggerers. The max_requests_per_second of a connection is divided by it.",
                "version_added": "0.1.0",
                "type": "integer",
                "example": "4",
                "default": "1",
            },
        },
    },
}


def get_provider_info() -> dict[str, Any]:
    """Describe the provider (Airflow's ``apache_airflow_provider`` entry point)."""
    return {
        "package-name": "airflow-provider-datapipe",
        "name": "Datapipe",
        "description": "Managed data pipelines: ELT, transforms, orchestrations and reverse ETL.",
        "connection-types": [
            {
                "connection-type": "datapipe",
                "hook-class-name": "airflow_provider_datapipe.hooks.datapipe.DatapipeHook",
                "hook-name": "Datapipe",
                "ui-field-behaviour": {
                    "hidden-fields": ["login", "schema", "extra"],
                    "relabeling": {"host": "Base address", "password": "API key"},
                    "placeholders": {
                        "host": "https://api.example.com",
                        "password": "API key that the service issued",
                        "port": "Only if the base address has none",
                    },
                },
                "conn-fields": CONNECTION_FIELDS,
            },
            {
                "connection-type": "datapipe_webhook",
                "hook-class-name": "airflow_provider_datapipe.hooks.webhook.WebhookIngestHook",
                "hook-name": "Datapipe webhook",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "extra"],
                    "relabeling": {"host": "Address", "password": "Password, token or signing secret"},
                    "placeholders": {
                        "host": "https://hooks.example.com/orders",
                        "port": "Only if the address has none",
                    },
                },
                "conn-fields": WEBHOOK_FIELDS,
            },
        ],
        "hooks": [
            {
                "integration-name": "Datapipe",
                "python-modules": [
                    "airflow_provider_datapipe.hooks.datapipe",
                    "airflow_provider_datapipe.hooks.webhook",
                ],
            }
        ],
        "operators": [
            {
                "integration-name": "Datapipe",
                "python-modules": [
                    "airflow_provider_datapipe.operators.connections",
                    "airflow_provider_datapipe.operators.custom_reports",
                    "airflow_provider_datapipe.operators.datapipe",
                    "airflow_provider_datapipe.operators.elt_streams",
                    "airflow_provider_datapipe.operators.elt_syncs",
                    "airflow_provider_datapipe.operators.orchestrations",
                    "airflow_provider_datapipe.operators.query_previews",
                    "airflow_provider_datapipe.operators.reverse_etl_failed_records",
                    "airflow_provider_datapipe.operators.reverse_etl_syncs",
                    "airflow_provider_datapipe.operators.schedules",
                    "airflow_provider_datapipe.operators.transform_folders",
                    "airflow_provider_datapipe.operators.transforms",
                    "airflow_provider_datapipe.operators.webhooks",
                    "airflow_provider_datapipe.operators.workspaces",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": "Datapipe",
                "python-modules": [
                    "airflow_provider_datapipe.sensors.run",
                    "airflow_provider_datapipe.sensors.state",
                ],
            }
        ],
        "triggers": [
            {
                "integration-name": "Datapipe",
                "python-modules": [
                    "airflow_provider_datapipe.triggers.condition",
                    "airflow_provider_datapipe.triggers.events",
                    "airflow_provider_datapipe.triggers.run",
                ],
            }
        ],
        "notifications": ["airflow_provider_datapipe.notifications.failure.DatapipeFailureNotifier"],
        # :mod:`.assets` defines the URIs.
        "asset-uris": [
            {
                "schemes": ["datapipe"],
                "handler": "airflow_provider_datapipe.assets.sanitize_uri",
                "to_openlineage_converter": "airflow_provider_datapipe.lineage.assets.convert_asset_to_openlineage",
            }
        ],
        "task-decorators": [
            {"name": name, "class-name": f"airflow_provider_datapipe.decorators.{function}"}
            for name, function in TASK_DECORATORS.items()
        ],
        "extra-links": ["airflow_provider_datapipe.links.DatapipeLink"],
        # The command ``airflow datapipe``. Airflow ignores this entry before 3.2.
        "cli": ["airflow_provider_datapipe.cli.airflow_commands.get_datapipe_cli_commands"],
        "config": CONFIGURATION,
        "integrations": [{"integration-name": "Datapipe", "tags": ["service"]}],
    }
