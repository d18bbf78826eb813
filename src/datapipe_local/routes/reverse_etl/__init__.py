"""Reverse ETL: syncs, what destinations offer them, their runs, and the records that failed."""

from fastapi import APIRouter

from datapipe_local.routes.reverse_etl import failed_records, offers, runs, syncs

router = APIRouter(tags=["reverse ETL"])
# The lists below /reverse_etl_syncs come before the ids that they would be taken for.
for part in (offers, syncs, runs, failed_records):
    router.include_router(part.router)
