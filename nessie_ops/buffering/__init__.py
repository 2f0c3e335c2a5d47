"""Transactions that are one commit: what is written waits in memory, and what was read is checked by the commit."""

from nessie_ops.buffering.blame import find_changes, tell
from nessie_ops.buffering.transaction import BufferedTransaction

__all__ = ["BufferedTransaction", "find_changes", "tell"]
