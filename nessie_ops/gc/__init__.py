"""Garbage collection of data files: what no branch, tag or kept commit can reach is found and deleted."""
