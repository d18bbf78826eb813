"""Durations as text, such as ``6h``. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

_NUMBER = r"(\d+(?:\.\d+)?)\s*"
#: Longer units come first, each at most once.
_UNITS = {"days": "d", "hours": "h", "minutes": "m(?:in)?", "seconds": "s"}
_FORM = re.compile("".join(rf"(?:{_NUMBER}{unit}\s*)?" for unit in _UNITS.values()), re.ASCII)


def parse_duration(text: str) -> timedelta:
    """
    Return a duration that is given as text: numbers with the units ``d``, ``h``, ``m`` or ``min``, and ``s``.

    :param text: the text, such as ``6h``, ``1h30m`` or ``1.5 d``. Longer units come first, each at most once.
    :raises ValueError: if the text is not a duration, or is out of range.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is not a duration")
    numbers = zip(_UNITS, found.groups(), strict=True)
    try:
        return timedelta(**{unit: float(number) for unit, number in numbers if number is not None})
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None
