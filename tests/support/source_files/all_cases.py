"""All cases of source files."""

from __future__ import annotations

from functools import cache

from tests.support.source_files.cases import Case
from tests.support.source_files.compressed_cases import compressed_cases
from tests.support.source_files.csv_content_cases import content_cases
from tests.support.source_files.csv_structure_cases import structure_cases
from tests.support.source_files.jsonl_cases import jsonl_cases


@cache
def all_cases() -> tuple[Case, ...]:
    """Return all cases. Their names are unique."""
    cases = (*structure_cases(), *content_cases(), *jsonl_cases(), *compressed_cases())
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return cases
