#!/bin/sh
# Makes .venv from requirements.lock, once, and again only when the lock or pyproject.toml is newer,
# this folder was moved, or the Python is another one. `setup.sh lock` resolves the lock again instead;
# what follows it is for uv: `setup.sh lock --exclude-newer-package NAME=2026-11-20` takes one mended
# package sooner.
# Needs CPython 3.11 to 3.14 with pip, nothing else; PYTHON=... chooses another one than python3.
set -eu
cd "$(dirname "$0")/.."

CHOSEN=${PYTHON:-}
PYTHON=${PYTHON:-python3}
# The lock has wheels for these; pyproject.toml and the README say the same.
PYTHON_MIN=11 PYTHON_MAX=14
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

# A .venv works only where it was made, and only with the Python it was made for.
made_for() {
    "$1" -ISc 'import sys; print("Python %d.%d in" % sys.version_info[:2])' 2>/dev/null || :
    pwd -P
}

is_of_here() { [ "$(made_for "${CHOSEN:-.venv/bin/python}")" = "$(cat "$STAMP")" ]; }

is_current() {
    [ -e "$STAMP" ] && [ -x .venv/bin/python ] && is_of_here &&
        [ -z "$(find requirements.lock pyproject.toml -newer "$STAMP")" ]
}

check_python() {
    needed="CPython 3.$PYTHON_MIN to 3.$PYTHON_MAX"
    command -v "$PYTHON" >/dev/null 2>&1 || fail "$PYTHON is not installed; install $needed, with pip"
    "$PYTHON" -c "import sys; sys.exit(sys.implementation.name != 'cpython' or not (
        (3, $PYTHON_MIN) <= sys.version_info[:2] <= (3, $PYTHON_MAX)))" ||
        fail "$needed is needed, $PYTHON is $("$PYTHON" -V 2>&1 | head -n 1); install one of these and set PYTHON=/path/to/it"
    "$PYTHON" -m pip --version >/dev/null 2>&1 ||
        fail "$PYTHON has no pip; install it (on Debian: apt-get install python3-pip)"
}

# All that pip was told, in its environment and in every file: `pip config get` reads the user's alone.
read_pip() { pip_settings=$("$PYTHON" -m pip config list 2>/dev/null) || pip_settings=; }

pip_setting() {
    printf '%s\n' "$pip_settings" | sed -n "s/^$1=['\"]\(.*\)['\"]\$/\1/p" | sed 's/\\n/ /g; s/^ *//; s/ *$//'
}

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

# pip parts them by spaces, uv by commas.
adopt_links() {
    [ -z "${UV_FIND_LINKS:-}" ] || return 0
    adopt UV_FIND_LINKS :env:.find-links install.find-links global.find-links
    [ -z "${UV_FIND_LINKS:-}" ] || UV_FIND_LINKS=$(printf '%s' "$UV_FIND_LINKS" | tr -s ' ' ',')
}

# uv does not read pip's configuration: hand over what says where packages are.
follow_pip() {
    read_pip
    adopt UV_DEFAULT_INDEX :env:.index-url install.index-url global.index-url
    adopt UV_INSECURE_HOST :env:.trusted-host install.trusted-host global.trusted-host
    adopt SSL_CERT_FILE :env:.cert install.cert global.cert
    adopt HTTPS_PROXY :env:.proxy install.proxy global.proxy
    if [ -n "$(pip_setting :env:.no-index)$(pip_setting install.no-index)$(pip_setting global.no-index)" ]; then
        export UV_NO_INDEX=1
        adopt_links
    fi
    export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}" UV_NO_PROGRESS=1 UV_LINK_MODE="${UV_LINK_MODE:-copy}"
}

# Tried only when the first index did not have everything, or its certificate was not trusted: the
# hashes of the lock make it safe, and an index that is gone must not stop us. A company's own
# certificate stands among this machine's, which Debian's pip trusts and uv does not by itself.
ask_wider() {
    adopt UV_INDEX :env:.extra-index-url install.extra-index-url global.extra-index-url
    adopt_links
    if grep -q certificate .venv/setup.log; then
        export UV_SYSTEM_CERTS=1
    elif [ -z "${UV_INDEX:-}${UV_FIND_LINKS:-}" ]; then
        return 1
    fi
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
    [ ! -s "$STAMP" ] || is_of_here || rm -rf .venv
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
    sync 2>.venv/setup.log || { ask_wider && sync 2>>.venv/setup.log; } || {
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
made_for .venv/bin/python >"$STAMP"
say 'done'
