"""What the demo has claimed, and whether it held."""

from __future__ import annotations

from rich.console import Console


class Verdict:
    """A list of claims; `holds` only when there are some and all hold."""

    def __init__(self) -> None:
        self._claims: list[tuple[str, bool, str]] = []

    def claim(self, text: str, truth: bool, otherwise: str = "") -> bool:
        """Record a claim and return its truth; `otherwise` is shown when it is false."""
        self._claims.append((text, truth, otherwise))
        return truth

    @property
    def holds(self) -> bool:
        return bool(self._claims) and all(truth for _, truth, _ in self._claims)

    def print(self, console: Console) -> None:
        """Print each claim with its truth."""
        console.print("\n[bold]Verified[/bold]")
        for text, truth, otherwise in self._claims:
            mark = "[green]yes[/green]" if truth else "[bold red]NO [/bold red]"
            console.print(f" {mark}  {text}{'' if truth or not otherwise else f': {otherwise}'}", highlight=False)
