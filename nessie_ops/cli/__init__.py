"""The command line: one file per family of commands.  Knows no web framework: what serves is passed in."""

from nessie_ops.cli.app import build_app, run

__all__ = ["build_app", "run"]
