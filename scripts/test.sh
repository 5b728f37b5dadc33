#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that this machine can run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--long] [--quick]

  --long    the tests labelled "long" too
  --quick   only the tests of the release build: no sanitizers, no clang-tidy, no build without
            LibTorch

  DDPRUN_NO_PEERS=1     leave out what compares with PyTorch in Python and OpenMPI (5 GB less)
  DDPRUN_TORCH=FOLDER   use this LibTorch (see scripts/setup.sh --help)
  DDPRUN_TORCH_PCH=OFF, DDPRUN_UNITY=OFF
                        do not precompile LibTorch's headers, compile each file alone: better where
                        ccache knows the files
  CI=true               a test left out is a failure
TEXT
}

# The sanitizers' run: label "sanitize", which are the parts without LibTorch and the collectives in
# shared memory. Each failure is reported and the rest goes on.
run_sanitizer() {
  local -x CXX=$CXX
  ! command -v clang++ >/dev/null || CXX=clang++  # it compiles them in half the time
  configure "$1" -DDDPRUN_SANITIZE_ALL="$long"
  build "$1" sanitize_tests
  say "Test build/$1"
  # One OpenMP thread: LibTorch's own threads are not instrumented, and would look like races.
  ASAN_OPTIONS=detect_leaks=1 \
    TSAN_OPTIONS="halt_on_error=1:suppressions=$ROOT/tests/tsan.supp" OMP_NUM_THREADS=1 \
    UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --preset "$1" -j"$at_once" --no-tests=error || failed+=("build/$1: $(failed_tests "$1")")
}

# The names of the tests that failed in the last run of a build.
failed_tests() {
  sed 's/^[0-9]*://' "build/$1/Testing/Temporary/LastTestsFailed.log" 2>/dev/null | paste -sd ' '
}

# ddprun builds where there is no LibTorch at all. Its tests are run in release.
check_core() {
  configure core
  build core
  if grep -q -E 'libtorch|ATen' build/core/build.ninja; then
    echo "build/core/build.ninja mentions LibTorch" >&2
    failed+=(build/core)
  fi
}

# clang-tidy's findings fail; where it is not installed, the reason is said, which CI=true refuses.
check_tidy() {
  local result=0
  scripts/tidy.sh || result=$?
  [ "$result" = 0 ] || [ "$result$strict" = 77 ] || failed+=(clang-tidy)
}

run_all_tests() {
  local folder=build/release filter=(-LE '^long$')
  [ "$long" = 0 ] || filter=()
  configure release -DDDPRUN_BUILD_TESTS=ON -DDDPRUN_BUILD_BENCHMARKS=ON -DDDPRUN_FUZZ=ON
  build release
  say "Test $folder"
  rm -f "$folder/tests.xml" "$folder/tests.closing"
  # ctest's closing lines come last, after the tests left out.
  ctest --preset release -j"$at_once" --no-tests=error "${filter[@]}" \
    --output-junit "$ROOT/$folder/tests.xml" 2>&1 |
    sed -u "/% tests passed,/,\$ { w $folder/tests.closing
                                  d }" || failed+=("$folder")
  [ -e "$folder/tests.xml" ] || fail "ctest did not run" "see above" \
    "remove $folder and run this again"

  say "Tests left out, and why"
  ctest --preset release --show-only=json-v1 >"$folder/tests.json"
  {
    [ "$long" = 1 ] || ctest --preset release -N -L '^long$' |
      sed -n 's/^ *Test *#[0-9]*: \(.*\)/  left out: \1: long, see --help/p'
    if ! compgen -G '.deps/venv/lib/python3*/site-packages/transformers' >/dev/null; then
      echo "  left out: what compares with PyTorch in Python: DDPRUN_NO_PEERS is set"
    fi
    if [ ! -e "$folder/bin/libddprun_cuda.so" ]; then
      echo "  left out: cuda.*: LibTorch's CUDA part is not there (scripts/setup.sh --cuda)"
      [ -z "$strict" ] || failed+=("no CUDA module")
    fi
    python3 scripts/left_out.py "$folder/tests.xml" "$folder/tests.json" ${strict:+--strict} ||
      failed+=("tests left out")
  } >"$folder/tests.left_out"
  [ -s "$folder/tests.left_out" ] || echo "  none" >"$folder/tests.left_out"
  cat "$folder/tests.left_out"
}

# One more than there are cores: many tests wait for processes to end.
at_once=$(($(nproc) + 1))
long=0 quick=0 strict='' failed=()
for option in "$@"; do
  case $option in
    --long) long=1 ;;
    --quick) quick=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown option $option" "it is none of the above" "leave it out" ;;
  esac
done
if [ "${CI:-}" = true ]; then
  strict=1
  [ -z "${DDPRUN_NO_PEERS:-}" ] || fail "DDPRUN_NO_PEERS is set" \
    "CI=true runs every test" "unset it"
fi

peers=--peers
[ -z "${DDPRUN_NO_PEERS:-}" ] || peers=''
scripts/setup.sh --tests ${peers:+"$peers"}
choose_compiler
if [ "$quick" = 0 ]; then
  check_core
  check_tidy
  run_sanitizer asan
  run_sanitizer tsan
fi
run_all_tests

[ ${#failed[@]} = 0 ] || say "FAILED: ${failed[*]}"
cat build/release/tests.closing
[ ${#failed[@]} = 0 ]
