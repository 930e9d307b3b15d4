#!/usr/bin/env bash
# What users install, in environments of their own and without the source tree:
#
#     tools/try_wheel.sh [arguments of pytest]
#
# - the wheel that is built here, where no compiler is in reach: the tests of the operations, by its loops;
# - an installation from source without a compiler, which must succeed: the same tests, by the reference in torch.
#
# What the tests need beside unclump is that of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/ops tests/optim -m "not deep" "--ignore-glob=*test_triton*")

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python=$PWD/.venv/bin/python
others=$($python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
export PIP_DISABLE_PIP_VERSION_CHECK=1
none="$place/no-compiler" # a name that CMake cannot run; without it CMake looks into /usr/bin whatever the PATH is

install() { # NAME WHAT: into a new environment, which then sees the packages of .venv but not its unclump
    $python -m venv "$place/$1"
    "$place/$1/bin/pip" install --quiet --no-deps "$2"
    echo "$others" >"$("$place/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/others.pth"
}

try() { # NAME EXPECTED: the loops that it must have, then the tests
    mkdir -p "$place/tree"
    cp -r tests conftest.py pyproject.toml "$place/tree"
    cd "$place/tree"
    export PATH="$place/$1/bin" CC=$none CXX=$none
    python -c "
import unclump
from unclump import _library
said = _library.describe()
print(unclump.__file__, said, sep='\n')
assert unclump.__file__.startswith('$place') and said.startswith('$2')"
    python -m pytest -q "${tests[@]}"
}

$python -m pip wheel --quiet --no-deps --wheel-dir "$place/wheels" .
install wheel "$place"/wheels/*.whl
(try wheel "compiled for")
CC=$none CXX=$none install source .
(try source "plain torch (not compiled")
