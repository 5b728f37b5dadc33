#!/usr/bin/env bash
# Runs tests again and again while every core is kept busy: what passes here holds anywhere.
#
#   scripts/repeat_tests.sh [-n TIMES] [-b BUILD_FOLDER] REGEX
#
# REGEX names tests as ctest -R does, -n how often each has to pass in a row (50). Stops at the
# first failure and shows it. Not part of scripts/test.sh: 50 runs of all tests take hours.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

times=50 folder=build/release
while getopts n:b:h option; do
  case $option in
    n) times=$OPTARG ;;
    b) folder=$OPTARG ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || fail "no tests are named" "one regular expression was expected" \
  "scripts/repeat_tests.sh 'elastic|nodes'; ctest --test-dir $folder -N lists the names"

busy=()
stop_busy() { kill "${busy[@]}" 2>/dev/null || true; }
trap stop_busy EXIT
for ((i = 0; i < $(nproc); ++i)); do
  while :; do :; done &
  busy+=($!)
done
# schedule-random: neighbours differ from run to run.
ctest --test-dir "$folder" -j"$(nproc)" --no-tests=error --output-on-failure --schedule-random \
  --repeat "until-fail:$times" --stop-on-failure -R "$1"
