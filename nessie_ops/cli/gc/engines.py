"""From options to the engine of a sweep.  Spark is imported when it is asked for, and nobody else needs Java."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import typer

from nessie_ops.cli.gc.options import Engines, Sweeping
from nessie_ops.cli.gc.parts import usage
from nessie_ops.gc.engine import Engine
from nessie_ops.gc.properties import Opened

OpenEngine = Callable[[Mapping[str, str]], AbstractContextManager[Engine | None]]


def choose_engine(engines: Engines, sweeping: Sweeping) -> OpenEngine:
    """What opens the engine on stores of given properties; None is for threads of this process."""
    if engines.engine.lower() == "local":
        if engines.spark_master or engines.spark_conf:
            raise typer.BadParameter("--spark-master, --spark-conf: give --engine spark, too.")
        return lambda properties: nullcontext()
    if engines.engine.lower() != "spark":
        raise typer.BadParameter(f"--engine: '{engines.engine[:20]}' is not known; use local or spark.")
    if sweeping.exact is False:
        raise typer.BadParameter("--bloom: --engine spark is always exact.")
    from nessie_ops.gc.spark import session

    with usage():
        settings = session.parse_settings(engines.spark_conf or ())
    return lambda properties: session.open_engine(Opened.here(properties), engines.spark_master, settings)
