"""Merge requests: wishes to merge a branch at one commit, which checks and people vouch for, carried out once."""

from nessie_ops.mergerequests.mergerequests import MergeRequests

__all__ = ["MergeRequests"]
