"""How the benchmark's figures are shown: a table of measures by side, with their ratios to the peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

from benchmarks.flatness import Row
from benchmarks.measures import FAIR

Figures = Mapping[str, Mapping[str, Sequence[float]]]  # by measure, by side: one per round


class Judged(Protocol):
    """What a figure is in, and how many times as good as the peer's it must be."""

    @property
    def unit(self) -> str: ...
    @property
    def must(self) -> float: ...


def ratio(measure: Judged, ours: float, peer: float) -> float:
    """How many times as good as the peer we are."""
    return peer / ours if measure.unit == "ms" else ours / peer


def comparison(measures: Mapping[str, Judged], figures: Figures) -> str:
    """One line per measure: the medians of all sides, and of ours the ratio to the peer beside what it must be."""
    sides = list(next(iter(figures.values())))
    lines = [["measure", "unit", *sides, *(f"{side}/peer" for side in sides if side != "peer"), "must"]]
    for name, by_side in figures.items():
        measure = measures[name]
        medians = {side: median(found) for side, found in by_side.items()}
        line = [name, measure.unit, *map(_number, medians.values())]
        if "peer" in medians and measure.unit != FAIR:
            line += [f"{ratio(measure, medians[side], medians['peer']):.2f}" for side in sides if side != "peer"]
        else:
            line += ["-" for side in sides if side != "peer"]
        lines.append([*line, f"{measure.must:g}"])
    return table(lines)


def rows(first: str, found: Mapping[int, Row]) -> str:
    """A table of rows by a number; columns are those of the first row."""
    columns = list(next(iter(found.values())))
    return table(
        [[first, *columns], *([f"{n}", *(_number(row.get(c, 0.0)) for c in columns)] for n, row in found.items())]
    )


def table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        " | ".join(
            text.ljust(width) if n == 0 else text.rjust(width) for n, (text, width) in enumerate(zip(line, widths))
        )
        for line in lines
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
