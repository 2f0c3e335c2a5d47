"""A program: a run whose first asset writes to a warehouse on S3 and whose second one fails there.

Prints one line of JSON: what was read, and all that the Dagster instance has written of the run.
"""

import json

import dagster as dg

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.instance import open_instance
from nessie_ops.runtime.home import get_home
from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake


@dg.asset
def squares(context: dg.AssetExecutionContext, lake: SparkLake) -> None:
    with lake.session("main") as spark:
        spark.sql("CREATE NAMESPACE numbers")
        spark.range(1000).selectExpr("id", "id * id AS square").writeTo("numbers.squares").create()
        total = spark.sql("SELECT sum(square) FROM numbers.squares").collect()[0][0]
        context.add_output_metadata({"sum": total, "settings": str(lake.catalog.spark_conf("lake", "main"))})


@dg.asset(deps=[squares])
def lost(lake: SparkLake) -> None:
    with NessieOpsCatalog("lake") as catalog:
        table = catalog.load_table("numbers.squares")
        for task in table.scan().plan_files():
            table.io.delete(task.file.file_path)
    with lake.session("main") as spark:
        spark.table("numbers.squares").collect()


def main() -> None:
    lake = SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())
    with open_instance(get_home()) as instance:
        result = dg.materialize([squares, lost], resources={"lake": lake}, instance=instance, raise_on_error=False)
        (written,) = result.asset_materializations_for_node("squares")
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        found = {
            "sum": written.metadata["sum"].value,
            "failed": [event.step_key for event in result.get_step_failure_events()],
            "run": repr(run),
            "run_config": run.run_config,
            "events": [repr(entry) for entry in instance.all_logs(result.run_id)],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
