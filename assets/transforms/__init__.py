"""The flights pipeline as functions of a Spark session: what is computed, with no word of Dagster or the catalog.

Every function works on the session's current catalog, so the same text runs on `main`, on a branch or on a
pinned commit.  Re-running a month leaves exactly that month's rows as the delivery has them.
"""
