"""A home with small deliveries, as for the tests of the pipeline."""

from tests.dagster.conftest import home, source

__all__ = ["home", "source"]
