#!/usr/bin/env bash
# The first half hour on a GPU: each step of the protocol below with a limit of its own, going on
# past what fails. Nothing is built, unless --build asks for it: GPUs cost by the hour. Where it was
# cut off, it goes on.
#
#   scripts/test_gpu.sh [--build] [--again] [--out FOLDER] [--steps FILE] [NAME...]
#
#   --build   first installs what is missing, and builds
#   --again   also steps that have failed, or were cut off by their limit
#   --out     where the results go: a log a step, summary.txt (build/gpu)
#   --steps   other steps, in the form of those below
#   NAME...   only these steps
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# NAME LIMIT COMMAND: seconds; a shell line. Exit status 77, or a last line with SKIPPED: skipped.
protocol() {
  cat <<'STEPS'
gpu 20 nvidia-smi && nvidia-smi topo -m
libraries 30 ! find $BIN $BIN/../lib -type f -name '*ddp*' | xargs ldd | grep 'not found'
doctor 60 $BIN/ddprun doctor --gpu
STEPS
  # One by one, so that one that hangs costs its own limit only.
  sed -nE 's/^    def (test_\w+).*/\1/p' tests/trainer/cuda/gpu_test.py |
    sed 's|.*|& 90 python3 tests/trainer/cuda/gpu_test.py OnAGpu.&|'
  sed -nE 's/^    def (test_\w+).*/\1/p' tests/trainer/cuda/shared_gpu_test.py |
    sed 's|.*|& 90 python3 tests/trainer/cuda/shared_gpu_test.py TwoRanksByNccl.&|'
  cat <<'STEPS'
speed 600 ${PYTHON:-python3} benchmarks/gpu.py --rounds 1 --bin $BIN
STEPS
}

OUT=build/gpu BUILD='' AGAIN='' STEPS='' ONLY=()
while [ $# -gt 0 ]; do
  case $1 in
    --build) BUILD=1 ;;
    --again) AGAIN=1 ;;
    --out) OUT=$2 && shift ;;
    --steps) STEPS=$2 && shift ;;
    -*) fail "no option $1" "it has --build, --again, --out and --steps" "read its first lines" ;;
    *) ONLY+=("$1") ;;
  esac
  shift
done

if [ -n "$BUILD" ]; then
  scripts/setup.sh --tests --peers  # which bring the CUDA part, and transformers for speed
  choose_compiler
  configure release -DDDPRUN_BUILD_TESTS=ON
  build release ddprun ddp-trainer
fi
export BIN=${BIN:-$ROOT/build/release/bin}
[ -n "$STEPS" ] || [ -x "$BIN/ddp-trainer" ] ||
  fail "no programs in $BIN" "this script builds nothing by itself" "--build, or set BIN=FOLDER"
export DDPRUN_PROGRAM=$BIN/ddprun DDPRUN_TRAINER_PROGRAM=$BIN/ddp-trainer DDPRUN_SOURCE_DIR=$ROOT
export PYTHONPATH=$ROOT/tests/multiprocess:$ROOT/tests/trainer/loop

mkdir -p "$OUT"
if [ -n "$STEPS" ]; then cp "$STEPS" "$OUT/steps"; else protocol >"$OUT/steps"; fi
trap 'kill -TERM $(jobs -p) 2>/dev/null || true; exit 130' INT TERM HUP

is_wanted() {  # NAME
  [ ${#ONLY[@]} -eq 0 ] || [[ " ${ONLY[*]} " == *" $1 "* ]] || return 1
  [ -e "$OUT/$1.result" ] || return 0
  [ -n "$AGAIN" ] && ! grep -q '^passed' "$OUT/$1.result"
}

run_step() {  # NAME LIMIT COMMAND
  local log="$OUT/$1.log" begin=$SECONDS status=0 result
  # In a process group of its own, which ends as a whole.
  timeout --kill-after=10 "$2" bash -c "$3" >"$log" 2>&1 </dev/null &
  wait $! || status=$?
  case $status in
    0) result=passed ;;
    124 | 137) result="cut off after $2 s" ;;
    *) result="failed ($status)" ;;
  esac
  if [ $status = 77 ] || tail -n 1 "$log" | grep -q SKIPPED; then result=skipped; fi
  # Only a step with a result is done.
  echo "$result, $((SECONDS - begin)) s" >"$OUT/$1.result"
}

summary() {
  local name limit command
  while read -r name limit command; do
    printf '%-60s %s\n' "$name" "$(cat "$OUT/$name.result" 2>/dev/null || echo 'not run')"
    # The numbers that are looked for first.
    grep -hE -e 'CUDA graph:|fused kernels:|largest difference|seconds to the report|tokens/s' \
      -e '^\| (gpt2|bert)' "$OUT/$name.log" 2>/dev/null | sed 's/^/    /' || true
  done <"$OUT/steps"
}

while read -r -u 3 name limit command; do
  is_wanted "$name" || continue
  say "$name (at most $limit s)"
  run_step "$name" "$limit" "$command"
  cat "$OUT/$name.result"
done 3<"$OUT/steps"
summary >"$OUT/summary.txt"
say "Results in $OUT"
cat "$OUT/summary.txt"
# Not behind a pipe: grep -q ends it early, and with pipefail the script would report success.
! grep -qhE '^(failed|cut off)' "$OUT"/*.result
