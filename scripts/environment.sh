# Sourced by the scripts beside it: go to the root of the checkout, make .venv unless a venv is
# active, and install the package there, again only when pyproject.toml has changed. Nothing here
# or after it needs the network once that is done.

cd "$(dirname "$0")/.."

if [ -z "${VIRTUAL_ENV:-}" ]; then
    [ -x .venv/bin/python ] || python3 -m venv .venv
    . .venv/bin/activate
fi

installed="$(pwd) $(cksum < pyproject.toml)"
stamp="$VIRTUAL_ENV/dac_rocm.installed"
if [ "$(cat "$stamp" 2> /dev/null)" != "$installed" ]; then
    python -m pip install --quiet --disable-pip-version-check --editable ".[dev,plot]"
    echo "$installed" > "$stamp"
fi
