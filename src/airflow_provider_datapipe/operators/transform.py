"""Operators for transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps


class TransformPublishOperator(DatapipeSingleRunOperator):
    """
    Publish a transform, and wait until its view or table is there.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`; a materialization has no run id and no
    times.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)
    :param materialization: ``view`` or ``table``; None for the transform's own. (templated)
    :param version_id: an older version of its SQL; None for the latest. (templated)
    :param new_name: publish it under this name; None for its own. (templated)
    :param new_folder_path: publish it in this folder; None for the one that it is in. (templated)

    .. seealso:: interface.md, "POST /transforms/{id}/publish".
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "transform_id",
        "transform_name",
        "folder_path",
        "materialization",
        "version_id",
        "new_name",
        "new_folder_path",
    )
    kind = "transform"
    asset_kind = "transform"
    asset_argument = "transform_id"
    endpoints = ("transforms.publish",)

    def __init__(
        self,
        *,
        transform_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        materialization: Literal["view", "table"] | None = None,
        version_id: str | None = None,
        new_name: str | None = None,
        new_folder_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(transform_id=transform_id, transform_name=transform_name)
        if folder_path is not None and transform_name is None:
            raise ValueError("folder_path says where transform_name is looked up; to move it, give new_folder_path")
        self.transform_id = transform_id
        self.transform_name = transform_name
        self.folder_path = folder_path
        self.materialization = materialization
        self.version_id = version_id
        self.new_name = new_name
        self.new_folder_path = new_folder_path
        self._declare_assets()

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import required, transform_target

        if self.materialization not in (None, "view", "table"):
            raise ValueError(f"materialization must be 'view' or 'table', not {self.materialization!r}")
        overrides = {
            "materialization": self.materialization,
            "version_id": self.version_id,
            "folder_path": self.new_folder_path,
            "name": self.new_name,
        }
        options = {key: required(key, value) for key, value in overrides.items() if value is not None}
        return transform_target(self.transform_id, self.transform_name, self.folder_path, options)

    def _lineage_version(self) -> str | None:
        return self.version_id


class TransformRematerializeOperator(DatapipeSingleRunOperator):
    """
    Build a published transform again, as it is, and wait until its view or table is there.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`; a materialization has no run id and no
    times.

    :param transform_id: ID of the transform; or set ``transform_name``. (templated)
    :param transform_name: name of the transform. (templated)
    :param folder_path: the folder of the name; None to search all folders. (templated)

    .. seealso:: interface.md, "POST /transforms/{id}/rematerialize".
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "transform_id",
        "transform_name",
        "folder_path",
    )
    kind = "transform"
    asset_kind = "transform"
    asset_argument = "transform_id"
    endpoints = ("transforms.rematerialize",)
    result_verb = "was rebuilt"

    def __init__(
        self,
        *,
        transform_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(transform_id=transform_id, transform_name=transform_name)
        self.transform_id = transform_id
        self.transform_name = transform_name
        self.folder_path = folder_path
        self._declare_assets()

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import transform_target

        return transform_target(self.transform_id, self.transform_name, self.folder_path, {"rematerialize": True})

    def _lineage_version(self) -> str | None:
        return "published"
