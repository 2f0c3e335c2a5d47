"""Dagster assets and asset checks of the flights pipeline: thin, they read, call the library and return metadata."""
