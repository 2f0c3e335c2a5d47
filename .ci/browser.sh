# See that a Chromium is there for the tests of the web pages; as root on Debian, install it.
set -eu

present() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null

present && exit 0
missing="the tests drive Chromium, which is missing; install the package chromium"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium ..."
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null ||
        { echo "make test: $missing (apt-get failed)" >&2; exit 1; }
fi
present || { echo "make test: $missing" >&2; exit 1; }
