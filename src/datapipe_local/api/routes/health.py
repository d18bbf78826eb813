"""Health check route."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/health")
def health() -> dict[str, str]:
    """Return a success response. It shows only that the service responds to requests."""
    return {"status": "ok"}
