#!/usr/bin/env bash
# Shows which lines of each folder the tests run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/coverage.sh [TEST_PROGRAM...]

  Builds the test programs in build/coverage (g++ --coverage) and runs them: those that are named,
  such as rendezvous_test, or all that are labelled "sanitize". Prints a table of folders;
  build/coverage/report/index.html shows each line. Processes that are killed or leave by _exit()
  count nothing.
TEXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
command -v gcovr >/dev/null || fail "no gcovr" "it reads what the tests have run" \
  "apt-get install gcovr"
choose_compiler
gcov=${CXX/g++/gcov}
command -v "$gcov" >/dev/null || fail "no $gcov" "coverage needs $CXX and its gcov" \
  "apt-get install g++, and unset CXX or set it to g++"

configure coverage
build coverage "${@:-sanitize_tests}"
find build/coverage -name '*.gcda' -delete
say "Test build/coverage"
tests=(-L '^sanitize$')
[ $# = 0 ] || tests=(-R "^($(IFS='|'; echo "$*"))[.]")
result=0
OMP_NUM_THREADS=1 ctest --test-dir build/coverage "${tests[@]}" -j"$(($(nproc) + 1))" \
  --no-tests=error --output-on-failure --progress || result=$?

report=build/coverage/report
mkdir -p $report
gcovr -r . -j "$(nproc)" --gcov-executable "$gcov" --object-directory build/coverage \
  --filter '(apps|base|launcher|rendezvous|trainer)/' --html-details $report/index.html \
  --json-summary $report/summary.json build/coverage
say "Lines that the tests run"
python3 - $report/summary.json <<'PYTHON'
import collections, json, os, sys
folders = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(sys.argv[1]))["files"]:
    for name in (os.path.dirname(file["filename"]), "all"):
        folders[name][0] += file["line_covered"]
        folders[name][1] += file["line_total"]
print(f"{'folder':24} {'run':>7} {'of':>7}")
for name in sorted(folders, key=lambda name: (name == "all", name)):
    run, total = folders[name]
    print(f"{name:24} {run:7} {total:7} {100 * run / max(total, 1):6.1f} %")
PYTHON
say "Each line: $report/index.html"
exit $result
