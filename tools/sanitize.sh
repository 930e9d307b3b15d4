#!/usr/bin/env bash
# The tests of the operations, and of what else calls the loops, with loops that the compiler's sanitisers watch:
#
#     tools/sanitize.sh [address,undefined | thread] [arguments of pytest]
#
# Python itself and torch are not watched. Afterwards the loops are those of `make native` again.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=${1:-address,undefined}
shift || true
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/ops tests/optim tests/codes/test_solver.py "--ignore-glob=*test_triton*")

reports=$(mktemp -d)  # not on standard error, which pytest captures
python=.venv/bin/python
restore() {
    cat "$reports"/* 2>/dev/null && echo "^ what the sanitisers said" || true
    rm -f build/native/libunclump_*
    make native >/dev/null
}
trap restore EXIT
best=$($python -c 'from unclump import _library; print(_library.available()[-1])') # all sets are of the same files
rm -f build/native/libunclump_*  # newer ones of another build would be taken for this one's
cmake -S . -B "build/sanitize-$sanitizers" -DUNCLUMP_SANITIZE="$sanitizers" >/dev/null
cmake --build "build/sanitize-$sanitizers" --parallel "$(nproc)" --target unclump_cpu "unclump_$best"

if [ "$sanitizers" = thread ]; then
    runtime=libtsan.so
    suppressions=$(mktemp)
    # Torch's own threads, which meet in an OpenMP that the sanitiser does not see. A name may fit one library only.
    printf '%s\n' called_from_lib:libtorch_cpu.so called_from_lib:libtorch_python.so called_from_lib:libgomp.so \
        called_from_lib:libgomp- called_from_lib:libscipy_openblas64_ called_from_lib:libscipy_openblas- \
        race:libtorch mutex:libtorch race:libfaiss race:libgomp race:openblas \
        race:_dl_deallocate_tls mutex:std::condition_variable::wait >"$suppressions"
    # The last two: a thread of theirs that has ended, in the C library; and gloo's, which waits. The loops use neither.
    # A child that was forked beside threads may start none under this sanitiser, but torch.set_num_threads starts one.
    tests+=(--deselect=tests/ops/test_native_processes.py::test_a_forked_child_gets_what_its_parent_got
        --deselect=tests/ops/test_faiss_search.py::test_a_forked_child_can_search_after_its_parent)
    export TSAN_OPTIONS="halt_on_error=1 exitcode=66 suppressions=$suppressions log_path=$reports/thread"
else
    runtime=libasan.so
    export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:log_path=$reports/address
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$reports/undefined
fi
LD_PRELOAD="$(gcc -print-file-name=$runtime) $(gcc -print-file-name=libstdc++.so)" $python -m pytest -q -p no:cacheprovider "${tests[@]}"
