"""Operators for transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator, required

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.reference import Target


class TransformPublishOperator(DatapipeSingleRunOperator):
    """
    Publish a transform, and wait until its view or table is there.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`; a materialization has no run id and no
    times.

    :param transform_id: id of the transform. (templated)
    :param materialization: ``view`` or ``table``; None for the transform's own. (templated)
    :param version_id: an older version of its SQL; None for the latest. (templated)
    :param folder_path: a new folder; None for the one that it is in. (templated)
    :param transform_name: a new name; None for its own. (templated)

    .. seealso:: interface.md, "POST /transforms/{id}/publish".
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "transform_id",
        "materialization",
        "version_id",
        "folder_path",
        "transform_name",
    )
    kind = "transform"

    def __init__(
        self,
        *,
        transform_id: str,
        materialization: Literal["view", "table"] | None = None,
        version_id: str | None = None,
        folder_path: str | None = None,
        transform_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transform_id = transform_id
        self.materialization = materialization
        self.version_id = version_id
        self.folder_path = folder_path
        self.transform_name = transform_name

    def _target(self) -> Target:
        from airflow_provider_datapipe.runs.reference import Target

        transform_id = required("transform_id", self.transform_id)
        if self.materialization not in (None, "view", "table"):
            raise ValueError(f"materialization must be 'view' or 'table', not {self.materialization!r}")
        overrides = {
            "materialization": self.materialization,
            "version_id": self.version_id,
            "folder_path": self.folder_path,
            "name": self.transform_name,
        }
        return Target(transform_id, transform_id, {key: value for key, value in overrides.items() if value is not None})
