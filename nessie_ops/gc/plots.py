"""Plots as SVG text: bars of bytes.  Needs no library and no browser; knows nothing of what is plotted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_LABEL, _BAR, _NUMBER, _HEIGHT, _GAP = 300, 460, 130, 18, 6  # pixels


def bars(title: str, rows: Sequence[tuple[str, Mapping[str, int]]], colors: Mapping[str, str]) -> str:
    """A horizontal bar for each (label, bytes by kind) row, stacked by kind in the order of `colors`.

    The legend has the kinds that occur.
    """
    colors = {kind: color for kind, color in colors.items() if any(parts.get(kind) for _, parts in rows)}
    top = max((sum(parts.values()) for _, parts in rows), default=0) or 1
    height = len(rows) * (_HEIGHT + _GAP) + 2 * _HEIGHT
    out = [
        f'<svg role="img" viewBox="0 0 {_LABEL + _BAR + _NUMBER} {height}" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(title)}</title>",
        *_legend(colors),
    ]
    for number, (label, parts) in enumerate(rows):
        y = number * (_HEIGHT + _GAP) + 2 * _HEIGHT
        out += [f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(_short(label))}</text>']
        x = float(_LABEL)
        for kind, color in colors.items():
            width = _BAR * parts.get(kind, 0) / top
            if width:
                note = f"<title>{escape(label)}: {kind} {format_bytes(parts[kind])}</title>"
                out.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}" fill="{color}">{note}</rect>'
                )
            x += width
        out.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{format_bytes(sum(parts.values()))}</text>')
    return "\n".join([*out, "</svg>"])


def _legend(colors: Mapping[str, str]) -> list[str]:
    out = []
    for number, (kind, color) in enumerate(colors.items()):
        x = _LABEL + number * 90
        out.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{color}"/>')
        out.append(f'<text x="{x + 17}" y="14">{escape(kind)}</text>')
    return out


def _short(label: str) -> str:
    return label if len(label) <= 42 else f"…{label[-41:]}"


def format_bytes(size: int) -> str:
    """Such as `12.3 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
