"""Lines that tell of a run's steps while it works, the same wherever it works.  Does no I/O but to call `tell`.

Steps may run side by side, so all that is known of one is kept by its name until it ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from nessie_ops.ci.outcomes import Tell


class Steps:
    """The steps of a run; times are seconds of any clock."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._began: dict[str, float] = {}
        self._notes: defaultdict[str, list[str]] = defaultdict(list)
        self._held: Counter[str] = Counter()

    def begin(self, step: str, at: float) -> None:
        self._began[step] = at
        self._tell(f"begins  {step}")

    def add_rows(self, step: str, rows: int) -> None:
        """The step's table has so many."""
        self._notes[step].append(f"{rows:,} rows")

    def add_check(self, step: str, name: str, *, passed: bool) -> None:
        if passed:
            self._held[step] += 1
        else:
            self._notes[step].append(f"{name} is broken")

    def end(self, step: str, at: float, *, has_failed: bool) -> None:
        """Tell how it ended, how long it took, and what it wrote or found."""
        held, notes = self._held.pop(step, 0), self._notes.pop(step, [])
        if held:
            notes = [f"{held} check{'s' if held > 1 else ''} passed", *notes]
        seconds = at - self._began.pop(step, at)
        self._tell(f"{'FAILED' if has_failed else 'ok':7} {step:28} {seconds:5.1f} s  {', '.join(notes)}".rstrip())
