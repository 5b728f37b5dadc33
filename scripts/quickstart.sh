#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds, trains a small GPT on the text
# of this repository with two processes, and shows what it wrote. Arguments go to ddprun's config,
# as in: scripts/quickstart.sh --set run.max_steps=50
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"
  exit
fi

scripts/setup.sh
choose_compiler
# Tests need more packages: they are left out, unless scripts/test.sh has set them up here.
if [ -e build/release/CMakeCache.txt ]; then
  configure release
else
  configure release -DDDPRUN_BUILD_TESTS=OFF
fi
build release ddprun ddp-trainer

command=(build/release/bin/ddprun --nproc_per_node=2 configs/quickstart.json "$@")
say "Train: ${command[*]}"
started=$(mktemp)
trap 'rm -f "$started"' EXIT
"${command[@]}"

run=$(find runs -mindepth 1 -maxdepth 1 -type d -newer "$started" 2>/dev/null | sort | tail -n 1)
if [ -n "$run" ]; then
  say "Done. This run left in $run:"
  find "$run" -type f -printf '  %p  %k KiB\n' | sort
fi
say "Next: change configs/quickstart.json, or see README.md"
