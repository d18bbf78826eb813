"""Routes of integrations."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from datapipe_local.api.models.common import PageDto, serialized
from datapipe_local.api.models.integrations import IntegrationDto
from datapipe_local.api.routes.common import DEFAULT_LIMIT, After, Limit, envelope
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import integrations

router = APIRouter(prefix="/integrations", tags=["integrations"])


@router.get("", **answering(PageDto[IntegrationDto]))
def list_integrations(
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    ability: Annotated[IntegrationAbility, Query()] = IntegrationAbility.ELT_SOURCE,
) -> dict[str, Any]:
    """List the integrations with an ability."""
    page = integrations.page(ability, after=starting_after, limit=limit)
    return envelope(page, partial(serialized, IntegrationDto, supports_start_date=False))
