"""Plot of the samples of the soak test as SVG, one panel for each unit. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

#: Panels by the end of the metrics' names.
PANELS = {
    "_rss_mb": "Memory (RSS), MB",
    "_fds": "Open file descriptors",
    "_connections": "TCP connections, and connections to PostgreSQL",
    "_rows": "Rows in the metadata database",
}
_COLORS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#9c6b4e")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _GAP = 760, 150, 60, 180, 30, 55


def plot(minutes: Sequence[float], samples: Mapping[str, Sequence[float]], kills: Sequence[float] = ()) -> str:
    """
    Return the picture.

    :param minutes: times of the samples.
    :param samples: values of each metric at these times.
    :param kills: times of the kills, in minutes.
    """
    height = _TOP + len(PANELS) * (_HEIGHT + _GAP)
    width = _LEFT + _WIDTH + _RIGHT
    size = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, (unit, title) in enumerate(PANELS.items()):
        lines = {name.removesuffix(unit): values for name, values in samples.items() if name.endswith(unit)}
        parts += _panel(_TOP + number * (_HEIGHT + _GAP), title, minutes, lines, kills)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    top: float, title: str, minutes: Sequence[float], lines: Mapping[str, Sequence[float]], kills: Sequence[float]
) -> Iterator[str]:
    last = max(minutes, default=0) or 1.0
    most = max((value for values in lines.values() for value in values), default=0) * 1.1 or 1.0

    def x(minute: float) -> float:
        return round(_LEFT + _WIDTH * minute / last, 1)

    def y(value: float) -> float:
        return round(top + _HEIGHT * (1 - value / most), 1)

    yield f'<text x="{_LEFT}" y="{top - 8}" font-weight="bold">{escape(title)}</text>'
    for share in (0.0, 0.5, 1.0):
        value = most * share
        yield f'<line x1="{_LEFT}" y1="{y(value)}" x2="{_LEFT + _WIDTH}" y2="{y(value)}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:.0f}</text>'
        minute = last * share
        yield f'<text x="{x(minute)}" y="{top + _HEIGHT + 16}" text-anchor="middle">{minute:.0f} min</text>'
    for minute in kills:
        yield f'<line x1="{x(minute)}" y1="{top}" x2="{x(minute)}" y2="{top + _HEIGHT}" stroke="#f2c4c4"/>'
    for number, (name, values) in enumerate(lines.items()):
        color = _COLORS[number % len(_COLORS)]
        points = " ".join(f"{x(minute)},{y(value)}" for minute, value in zip(minutes, values, strict=True))
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        label = escape(name.replace("_", " "))
        yield f'<text x="{_LEFT + _WIDTH + 10}" y="{top + 12 + 16 * number}" fill="{color}">{label}</text>'
