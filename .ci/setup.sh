# Make the virtual environment $1 from the pinned packages and prepare the machine for Spark.
# Each thing that is missing is said in one line; a second run continues where the first one stopped.
set -eu
venv=$1

fail() {
    echo "setup: $1" >&2
    exit 1
}

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if fits "$python"; then
            echo "$python"
            return
        fi
    done
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            fail "$python has no venv module; install it (on Debian and Ubuntu: the package python3-venv)"
        fi
    done
    found=$("${PYTHON:-python3}" --version 2>/dev/null || echo "${PYTHON:-python3} does not run")
    fail "Python 3.11, 3.12 or 3.13 is needed ($found); name one with: make setup PYTHON=/path/to/python3.12"
}

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --use-pep517 --no-build-isolation "$@"
}

if ! fits "$venv/bin/python"; then
    python=$(find_python)
    echo "creating $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" || fail "$python cannot create $venv"
fi

# The build tools come first: the few packages without a wheel are built with these pinned ones, not with the newest.
install --quiet --require-hashes --requirement requirements-build.txt &&
    install --no-deps --require-hashes --requirement requirements.txt &&
    install --quiet --no-deps --no-index --editable . ||
    fail "the pinned packages could not be installed (pip says why above); it needs the network once"

"$venv/bin/python" -m nessie_ops.runtime
