# shellcheck shell=sh
# $PYTHON: a python3 that has NumPy, or empty. The first python3 of the PATH may be one that the distribution's packages are not for.
if [ -z "${PYTHON:-}" ]; then
    PYTHON=
    for python_try in python3 /usr/bin/python3 /usr/local/bin/python3; do
        if "$python_try" -c 'import numpy' >/dev/null 2>&1; then
            PYTHON=$python_try
            break
        fi
    done
fi
export PYTHON
