"""JSON Schema of the settings of a connection or destination."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from airflow_provider_datapipe.api.models.common import Answer, FreeJson, FreeObject


class SettingsSchema(Answer):
    """
    A JSON Schema object (draft-07).

    ``dependencies`` maps a field to the fields that determine its choices. The caller passes the values of those fields
    as ``partial_settings`` to ``reverse_etl_syncs.settings_schema``.

    :param schema_uri: address of the JSON Schema draft.
    :param title: title of the form.
    :param type: type of the settings, ``object``.
    :param properties: JSON Schema of each setting.
    :param required: names of the required settings.
    :param dependencies: names of the settings that a setting's choices depend on, by name.
    """

    schema_uri: str = Field(alias="$schema")
    title: str
    type: str
    properties: FreeObject
    required: tuple[str, ...] | None = None
    # In draft-07, a dependency may also be a schema. Other shapes of services are kept as they are.
    dependencies: Annotated[
        dict[str, tuple[str, ...] | FreeObject] | FreeJson | None, Field(union_mode="left_to_right")
    ] = None
