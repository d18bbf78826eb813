"""Whether the service is up."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/health")
def health() -> dict[str, str]:
    """Answer: nothing more is promised than that requests are answered."""
    return {"status": "ok"}
