"""A proposed change on a branch of its own: loaded, checked and reported there, merged when a person merges it.

A composition root, like `month_runs`: it drives Dagster's job `load_on_branch`, here or on a server.
"""
