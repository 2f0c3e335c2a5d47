# See that a PySpark 3.5 is there, beside the project's own: the last Spark that Nessie's SQL extensions are made for.
# $1 is the project's Python.  It is put into the cache, once, as pinned in spark35.txt.
set -eu
python=$1
pins=$(dirname "$0")/spark35.txt
name=$(sed -n 's/^pyspark==\([0-9.]*\).*/pyspark-\1/p' "$pins")
cache=${NESSIE_OPS_CACHE:-$HOME/.cache/nessie_ops}

[ ! -d "$cache/$name" ] || exit 0
echo "installing $name (318 MB) for the tests of Nessie's SQL extensions, once ..."
mkdir -p "$cache"
new=$(mktemp -d "$cache/.pyspark-XXXXXX")
trap 'rm -rf "$new"' EXIT
"$python" -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 --no-build-isolation --no-compile \
    --no-deps --require-hashes --target "$new/made" --requirement "$pins" ||
    { echo "make test: $name could not be installed (pip says why above); it needs the network once" >&2; exit 1; }
[ -d "$cache/$name" ] || mv "$new/made" "$cache/$name"
