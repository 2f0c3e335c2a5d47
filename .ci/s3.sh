# See that versitygw is there, the S3 server of the tests that checks signatures; where Go is, build it once.
set -eu
version=v1.8.0
cache=${NESSIE_OPS_CACHE:-$HOME/.cache/nessie_ops}/bin

[ -z "${NESSIE_OPS_TEST_S3:-}" ] || exit 0
! command -v versitygw >/dev/null || exit 0
[ ! -x "$cache/versitygw" ] || exit 0
if command -v go >/dev/null; then
    echo "building versitygw $version, once; some minutes ..."
    GOBIN="$cache" go install "github.com/versity/versitygw/cmd/versitygw@$version" && exit 0
fi
echo "make test: the tests that need an S3 server which checks signatures are not run; install Go 1.25, or versitygw" >&2
