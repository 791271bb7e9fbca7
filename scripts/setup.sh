#!/bin/sh
# Makes .venv from requirements.lock, once, and again only when the lock or
# pyproject.toml is newer. `setup.sh lock` resolves the lock again instead; what follows it is for
# uv: `setup.sh lock --exclude-newer-package NAME=2026-11-20` takes one mended package sooner.
# Needs python3 >= 3.11 with pip, nothing else; PYTHON=... chooses another one.
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
UV=.tools/bin/uv
UV_LOCK=scripts/uv.txt
STAMP=.venv/.setup-done
# A stolen package is mostly found out within days: what is younger is not taken into a lock.
COOLDOWN='7 days'

say() { printf 'setup: %s\n' "$1" >&2; }

fail() {
    printf 'setup: error: %s\n' "$1" >&2
    exit 1
}

is_current() {
    [ -e "$STAMP" ] && [ -x .venv/bin/python ] &&
        [ -z "$(find requirements.lock pyproject.toml -newer "$STAMP")" ]
}

check_python() {
    command -v "$PYTHON" >/dev/null 2>&1 ||
        fail "$PYTHON is not installed; install Python 3.11 or newer, with pip"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python 3.11 or newer is needed, $PYTHON is $("$PYTHON" -V 2>&1); set PYTHON=/path/to/a/newer/python3"
    "$PYTHON" -m pip --version >/dev/null 2>&1 ||
        fail "$PYTHON has no pip; install it (on Debian: apt-get install python3-pip)"
}

pip_setting() { "$PYTHON" -m pip config get "$1" 2>/dev/null | tr '\n' ' ' | sed 's/ *$//' || :; }

# Sets the variable $1 from the first of pip's settings $2... unless it is set already.
adopt() {
    variable=$1
    shift
    eval "[ -z \"\${$variable:-}\" ]" || return 0
    for setting in "$@"; do
        value=$(pip_setting "$setting")
        if [ -n "$value" ]; then
            export "$variable=$value"
            return 0
        fi
    done
}

# uv does not read pip's configuration: hand over what says where packages are.
follow_pip() {
    adopt UV_DEFAULT_INDEX :env:.index-url install.index-url global.index-url
    adopt UV_INSECURE_HOST :env:.trusted-host install.trusted-host global.trusted-host
    adopt SSL_CERT_FILE :env:.cert install.cert global.cert
    adopt HTTPS_PROXY :env:.proxy install.proxy global.proxy
    if [ -n "$(pip_setting :env:.no-index)$(pip_setting install.no-index)$(pip_setting global.no-index)" ]; then
        export UV_NO_INDEX=1
        adopt UV_FIND_LINKS :env:.find-links install.find-links global.find-links
        UV_FIND_LINKS=$(printf '%s' "${UV_FIND_LINKS:-}" | tr -s ' ' ',')
        export UV_FIND_LINKS
    fi
    export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}" UV_NO_PROGRESS=1 UV_LINK_MODE="${UV_LINK_MODE:-copy}"
}

# pip's further indexes are asked only when the first one did not have everything:
# the hashes of the lock make it safe, and one that is gone must not stop us.
add_further_indexes() {
    adopt UV_INDEX :env:.extra-index-url install.extra-index-url global.extra-index-url
    adopt UV_FIND_LINKS :env:.find-links install.find-links global.find-links
    [ -n "${UV_INDEX:-}${UV_FIND_LINKS:-}" ] || return 1
    export UV_INDEX_STRATEGY=unsafe-best-match
}

fetch_uv() {
    if [ -x "$UV" ] && "$UV" --version >/dev/null 2>&1; then return 0; fi
    say 'fetching uv into .tools'
    rm -rf .tools
    "$PYTHON" -m pip install -qq --disable-pip-version-check --no-warn-script-location \
        --root-user-action=ignore --require-hashes --only-binary :all: --target .tools -r "$UV_LOCK" >&2 || fail 'pip could not install uv; its message is above'
}

make_venv() {
    say 'making .venv'
    "$UV" venv --quiet --allow-existing --no-project --python "$PYTHON" .venv ||
        fail 'could not make .venv; remove it and try again'
}

# Wheels only: what is built here runs its own code while it is installed. Compiled here, on all cores,
# a process that may write no bytecode still starts fast.
sync() {
    "$UV" pip sync --quiet --compile-bytecode --python .venv --require-hashes \
        --only-binary :all: "$@" requirements.lock
}

install() {
    say 'installing the packages of requirements.lock'
    sync 2>.venv/setup.log || { add_further_indexes && sync 2>>.venv/setup.log; } || {
        cat .venv/setup.log >&2
        fail 'could not install the packages of requirements.lock; the message is above'
    }
    say 'installing vnbot itself, editable'
    "$UV" pip install --quiet --python .venv --no-deps --no-build-isolation --offline --editable . ||
        fail 'could not install vnbot itself; the message is above'
}

lock() {
    say "resolving requirements.lock, from what is older than $COOLDOWN"
    compile "$@" --extra postgres --extra fast --extra notify --extra cluster --group dev \
        pyproject.toml -o requirements.lock ||
        fail 'could not resolve the dependencies; the message is above'
    echo uv | compile --upgrade - -o "$UV_LOCK" >/dev/null || fail 'could not resolve uv; the message is above'
}

compile() {
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes --exclude-newer "$COOLDOWN" \
        --no-emit-index-url --no-annotate --no-header "$@"
}

if [ "${1:-}" != lock ] && is_current; then exit 0; fi
check_python
follow_pip
fetch_uv
if [ "${1:-}" = lock ]; then
    shift
    lock --upgrade "$@"
    exit 0
fi
make_venv
install
touch "$STAMP"
say 'done'
