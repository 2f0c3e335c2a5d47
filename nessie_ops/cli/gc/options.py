"""The options of nessie-gc's commands, with its names, and those that it lacks."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from nessie_ops.cli.gc.groups import Texts, option, options

Text = str


class Database(NamedTuple):
    """Where live sets are."""

    inmemory: Annotated[bool, option("--inmemory", help="Keep the live set in memory; for `gc` alone.")] = False
    jdbc: Annotated[bool, option("--jdbc", help="Without meaning: --jdbc-url decides.")] = False
    jdbc_url: Annotated[
        str,
        option("--jdbc-url", help="Database of live sets: jdbc:… or SQLAlchemy's. Default: gc.db in NESSIE_OPS_HOME."),
    ] = ""
    jdbc_user: Annotated[str, option("--jdbc-user", help="User of that database.")] = ""
    jdbc_password: Annotated[str, option("--jdbc-password", help="Password; better in NESSIE_GC_JDBC_PASSWORD.")] = ""
    jdbc_properties: Annotated[Texts, options("--jdbc-properties", help="Parameters of the driver: k=v,….")] = None
    jdbc_schema: Annotated[
        str, option("--jdbc-schema", help="CREATE, DROP_AND_CREATE or CREATE_IF_NOT_EXISTS, before the command.")
    ] = ""
    jdbc_fetch_size: Annotated[int, option("--jdbc-fetch-size", help="Without meaning here.", hidden=True)] = 0
    jdbc_pool_max_size: Annotated[int, option("--jdbc-pool-max-size", help="Without meaning here.", hidden=True)] = 0


class Origin(NamedTuple):
    """The catalog whose files are collected."""

    uri: Annotated[
        str, option("-u", "--uri", help="Nessie server, such as http://127.0.0.1:19120/api/v2. Default: our own store.")
    ] = ""
    store: Annotated[
        str,
        option("--store", env=False, help="Database of our own store. Default: NESSIE_OPS_STORE, or that of the home."),
    ] = ""
    nessie_option: Annotated[
        Texts, options("-o", "--nessie-option", help="Of the Nessie client: nessie.authentication.type=BEARER,….")
    ] = None
    nessie_client: Annotated[str, option("--nessie-client", help="HTTP, the only one.")] = ""
    nessie_api: Annotated[str, option("--nessie-api", help="Without meaning here.")] = ""
    catalog: Annotated[
        str, option("--catalog", help="Instead a plain Iceberg catalog, by the name that PyIceberg opens it with.")
    ] = ""
    catalog_option: Annotated[
        Texts, options("--catalog-option", help="Its properties besides PyIceberg's configuration: type=rest,uri=….")
    ] = None


class Marking(NamedTuple):
    """What is live."""

    default_cutoff: Annotated[
        str,
        option("-c", "--default-cutoff", help="NONE, a number of commits, a duration (P30D) or an instant."),
    ] = ""
    cutoff: Annotated[
        Texts, options("-C", "--cutoff", help="REGEX=POLICY,… by names of references; the first that matches counts.")
    ] = None
    cutoff_ref_time: Annotated[str, option("-R", "--cutoff-ref-time", help="When durations end. Default: now.")] = ""
    identify_parallelism: Annotated[int, option("--identify-parallelism", min=1, help="Without meaning here.")] = 4
    write_live_set_id_to: Annotated[str, option("--write-live-set-id-to", help="File for the live set's id.")] = ""
    resume: Annotated[
        str, option("--resume", env=False, help="Go on with this live set, whose mark or sweep failed or was killed.")
    ] = ""
    keep_live_sets: Annotated[
        str, option("--keep-live-sets", help="Live sets older than this are forgotten. Default: P90D.")
    ] = "P90D"


class Sweeping(NamedTuple):
    """What is deleted."""

    max_file_modification: Annotated[
        str,
        option("--max-file-modification", help="Files changed later stay. Default: the mark less the grace period."),
    ] = ""
    grace_period: Annotated[
        str, option("--grace-period", help="Default: the repository's newFilesGracePeriod, or PT24H.")
    ] = ""
    expected_file_count: Annotated[
        int, option("--expected-file-count", help="Live files that the Bloom filter is made for. Default: 1000000.")
    ] = 0
    fpp: Annotated[float, option("--fpp", help="Its rate of files kept by mistake. Default: 1e-5.")] = 0.00001
    allowed_fpp: Annotated[
        float, option("--allowed-fpp", help="Above this rate the filter is built anew, larger. Default: 1e-4.")
    ] = 0.0001
    exact: Annotated[
        bool | None, option("--exact/--bloom", env=False, help="Default: exact up to 20 million live files.")
    ] = None
    expiry_parallelism: Annotated[int, option("--expiry-parallelism", min=1, help="Folders listed at a time.")] = 8
    defer_deletes: Annotated[
        bool, option("--defer-deletes/--no-defer-deletes", help="Record the files for `deferred-deletes`.")
    ] = False
    allowed_location: Annotated[
        Texts, options("--allowed-location", help="Delete below these locations alone; may be repeated.")
    ] = None
    unreferenced_age: Annotated[
        str, option("--unreferenced-age", help="Sweep dropped tables, too, which nobody held for so long (P30D).")
    ] = ""
    expire_snapshots: Annotated[
        bool,
        option(
            "--expire-snapshots/--no-expire-snapshots",
            help="First rewrite the tables' metadata, so that it lists only the snapshots that kept commits name.",
        ),
    ] = False
    expire_on: Annotated[
        str, option("--expire-on", help="Branch on which that is committed before it is merged. Default: none.")
    ] = ""
    warehouse: Annotated[
        str, option("--warehouse", help="Where these tables are. Default: NESSIE_OPS_WAREHOUSE, or in the home.")
    ] = ""
    max_deletions: Annotated[
        int, option("--max-deletions", min=0, help="More than that need --force. Default: 1000000.")
    ] = 1_000_000
    max_deletion_share: Annotated[
        float,
        option("--max-deletion-share", min=0, max=1, help="Of the listed files; more need --force. Default: 0.5."),
    ] = 0.5
    force: Annotated[
        bool, option("--force", env=False, help="Delete more than the caps allow, or with a grace below PT24H.")
    ] = False
    dry_run: Annotated[bool, option("--dry-run", env=False, help="Delete nothing; only say what would be.")] = False
    explain: Annotated[
        bool | None,
        option(
            "--explain/--no-explain", env=False, help="Look up who held dead files last. Default: if that is quick."
        ),
    ] = None
    report_dir: Annotated[
        str, option("--report-dir", help="Where the report goes. Default: gc-reports in NESSIE_OPS_HOME.")
    ] = ""


class Engines(NamedTuple):
    """Where live files are found and folders listed."""

    engine: Annotated[str, option("--engine", help="local, or spark for catalogs that outgrow one machine.")] = "local"
    spark_master: Annotated[
        str,
        option("--spark-master", help="Default: NESSIE_OPS_SPARK_MASTER, SPARK_REMOTE, spark-defaults.conf, local[*]."),
    ] = ""
    spark_conf: Annotated[Texts, option("--spark-conf", help="spark.NAME=VALUE; may be repeated.")] = None


class Files(NamedTuple):
    """How files are reached."""

    iceberg: Annotated[
        Texts, options("-I", "--iceberg", help="Iceberg's FileIO properties: s3.endpoint=…,s3.access-key-id=….")
    ] = None
    hadoop: Annotated[Texts, options("-H", "--hadoop", help="Of Hadoop; without meaning here.")] = None


class Chosen(NamedTuple):
    """The live set that a command is about."""

    live_set_id: Annotated[str, option("-l", "--live-set-id", help="Id of the live set.")] = ""
    read_live_set_id_from: Annotated[
        str, option("-L", "--read-live-set-id-from", help="File whose first line is the id.")
    ] = ""


TimeZone = Annotated[str, option("--time-zone", help="For times in tables. Default: that of the system.")]
AsJson = Annotated[bool, option("--json", env=False, help="Print JSON.")]
DryRun = Annotated[bool, option("--dry-run", env=False, help="Only say what would be done.")]
ReportDir = Annotated[str, option("--report-dir", help="Where the report goes. Default: in NESSIE_OPS_HOME.")]
