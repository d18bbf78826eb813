"""What connections to destinations are told. Apart from what writes to them, which is loaded when it is needed."""

from pydantic import AnyHttpUrl, Field, field_validator

from datapipe_local.strict import Strict


class HttpSettings(Strict):
    """Settings of a connection to an HTTP endpoint."""

    url: str = Field(min_length=1)

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        AnyHttpUrl(url)
        return url


class JsonLinesSettings(Strict):
    """Settings of a connection to a folder of JSON Lines files."""

    path: str = Field(min_length=1)
