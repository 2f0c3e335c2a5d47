"""A sweep's expansion and listing on Apache Spark, for catalogs that outgrow one machine.

`engine` and `frames` plan the jobs on the driver, `reading` and `scanning` run on the workers, where they apply the
rules of `expand`, `places` and `sweep`.  What goes wrong with a file comes back as a row, so that no job fails for it.
"""
