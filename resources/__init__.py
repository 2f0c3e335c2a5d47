"""Dagster resources, one per file: they hold the I/O that assets stay free of."""
