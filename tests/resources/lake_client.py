"""A program: one asset on a branch, read back on main and on the branch, wherever the environment says Spark runs.

Prints one line of JSON.  A process of its own, since a process talks to one Spark all its life.
"""

import json
import signal

import dagster as dg

from nessie_ops.model import ReferenceType
from nessie_ops.sql.spark import NessieSession
from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake

BRANCH = "run/client"


@dg.asset
def squares(lake: SparkLake) -> None:
    with lake.session(BRANCH) as spark:
        spark.sql("CREATE NAMESPACE numbers")
        spark.range(1000).selectExpr("id", "id * id AS square").writeTo("numbers.squares").create()


def move_rows(lake: SparkLake) -> dict[str, object]:
    """A transaction by SQL."""
    with lake.session(BRANCH) as spark, NessieSession(spark, "lake") as session:
        session.sql("USE lake.numbers; CREATE TEMP VIEW few AS SELECT * FROM squares WHERE id < 3; START TRANSACTION")
        session.sql("CREATE TABLE moved AS SELECT * FROM few")
        outside = spark.catalog.tableExists("lake.numbers.moved")
        session.sql("DELETE FROM squares WHERE id < 3; COMMIT")
        [entry] = session.sql("SHOW LOG LIMIT 1").collect()
        left = session.sql("SELECT count(*) FROM squares").collect()[0][0]
        return {"outside": outside, "left": left, "level": entry.properties["nessie_ops.isolation"]}


def main() -> None:
    lake = SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())
    client = lake.catalog.client
    client.create_reference(ReferenceType.BRANCH, BRANCH, client.get_reference("main").hash)
    succeeded = dg.materialize([squares], resources={"lake": lake}).success
    with lake.session(BRANCH) as branch, lake.session("main") as main_session:
        found = {
            "succeeded": succeeded,
            "spark": type(branch).__module__,
            "sum": branch.sql("SELECT sum(square) FROM numbers.squares").collect()[0][0],
            "on_main": main_session.catalog.tableExists("lake.numbers.squares"),
            "time_zone": branch.conf.get("spark.sql.session.timeZone"),
        }
    found |= move_rows(lake)
    found["handler_kept"] = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print(json.dumps(found))


if __name__ == "__main__":
    main()
