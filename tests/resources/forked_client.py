"""A program: forks while it has a Spark; parent and child then ask at the same time and compare what they get.

Prints the number of Sparks that answered.  Exit code 0 when every answer was right.
"""

import os
import sys

from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake

QUERIES = 20


def ask(first: int) -> str:
    """The name of the Spark that answered all questions rightly."""
    lake = SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())
    with lake.session("main") as spark:
        for number in range(first, first + QUERIES):
            assert spark.sql(f"SELECT {number}").collect() == [(number,)]
        return str(spark.sparkContext.applicationId)


def main() -> None:
    ask(0)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, ask(1000).encode())
        os._exit(0)
    os.close(writer)
    own = ask(2000)
    with os.fdopen(reader) as pipe:
        childs = pipe.read()
    _, status = os.waitpid(child, 0)
    print(len({own, childs} - {""}))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
