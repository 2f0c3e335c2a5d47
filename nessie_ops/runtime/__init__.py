"""What the machine must give before the platform runs: a home, Java, the Iceberg jar, a warm JVM.

A leaf: imports `errors` alone of this project, and is imported by the composition roots and by `resources`.
`python -m nessie_ops.runtime` prepares all of it; each part is also made at its first use.
"""
