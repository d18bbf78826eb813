"""SQL templates: their validation, and the SQL in which references are replaced by names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.formats.sql_references import replace_tags, without_end
from datapipe_local.common.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Maximum length of SQL. DuckDB's parser may crash on deeply nested SQL, such as millions of brackets.
LONGEST = 100_000


def filled(template: str, name_of: Callable[[str], str]) -> str:
    """
    Return the SQL of a template, without comments and semicolons at its end.

    :param template: SQL template.
    :param name_of: Returns the SQL name for a tag.
    """
    return replace_tags(without_end(template), name_of).strip()


def check(field: str, template: str) -> None:
    """
    Validate the length and the characters of a SQL text.

    :raises BadRequestError: if the text is empty or too long, or contains NUL.
    """
    if not template.strip():
        raise BadRequestError(f"{field}: there is no SQL: give a SELECT.")
    if "\0" in template:
        raise BadRequestError(f"{field}: the SQL contains a NUL character: remove it.")
    if len(template) > LONGEST:
        raise BadRequestError(f"{field}: the SQL has {len(template)} characters: at most {LONGEST} are allowed.")
