"""Routes of reverse ETL: syncs, destination catalogs, runs and failed records."""

from fastapi import APIRouter

from datapipe_local.api.routes.reverse_etl import catalog as offers
from datapipe_local.api.routes.reverse_etl import failed_records, runs, syncs

router = APIRouter(tags=["reverse ETL"])
# Fixed paths below /reverse_etl_syncs must precede the route with the sync ID.
for part in (offers, syncs, runs, failed_records):
    router.include_router(part.router)
