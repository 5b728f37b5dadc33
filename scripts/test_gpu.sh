#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests that need a GPU: after scripts/test.sh, which
# leaves them out where there is none.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh --tests --cuda
choose_compiler
configure release -DDDPRUN_BUILD_TESTS=ON
build release ddprun ddp-trainer
build/release/bin/ddprun doctor --gpu
say "Test on the GPU"
ctest --preset release -L '^gpu$' --no-tests=error --output-on-failure
