# shellcheck shell=bash
# Shared by the scripts of this folder, which source it: output, failures, compiler, build.
# After it, the working directory is the root of the checkout and $ROOT names it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT" || exit 1
# The files of a dozen that CMake writes have other paths in each build folder. Relative ones are
# the same: what build/core has compiled, build/release finds.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$ROOT}

# One line per phase, with the minutes since the start; on a terminal in bold, so that it stands out
# from the tools' own output.
say() {
  local line="== $*"
  [ "$SECONDS" -lt 60 ] || line+=" ($((SECONDS / 60)) min)"
  if [ -t 1 ]; then printf '\033[1m%s\033[0m\n' "$line"; else printf '%s\n' "$line"; fi
}

# fail WHAT WHY WHAT_TO_DO: ends the script.
fail() {
  printf '\n%s: %s\n  why:  %s\n  do:   %s\n' "$(basename "$0")" "$1" "$2" "$3" >&2
  exit 1
}

version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# Sets CXX to a compiler that knows C++20 as this code uses it (Ubuntu 22.04: not the default one).
choose_compiler() {
  local name
  for name in ${CXX:+"$CXX"} g++ g++-14 g++-13 g++-12; do
    command -v "$name" >/dev/null || continue
    case $("$name" --version 2>/dev/null) in *clang*) export CXX=$name; return ;; esac
    if version_at_least 12 "$("$name" -dumpversion)"; then export CXX=$name; return; fi
  done
  fail "no C++ compiler" "g++ 12 or newer was not found" "run scripts/setup.sh, or set CXX=PROGRAM"
}

# configure PRESET [CMAKE_ARGUMENT...]
configure() {
  local preset=$1 log="$ROOT/build/configure-$1.log"
  shift
  mkdir -p "$ROOT/build"
  say "Configure build/$preset"
  # -U: another Python or LibTorch may have come since. Precompiled, a dozen files at a time:
  # whoever builds by script most often builds from nothing, where ccache has nothing to give.
  local torch=${DDPRUN_TORCH:+-DDDPRUN_TORCH=$DDPRUN_TORCH}
  local fast=(-DDDPRUN_TORCH_PCH=${DDPRUN_TORCH_PCH:-ON} -DDDPRUN_UNITY=${DDPRUN_UNITY:-ON})
  if ! cmake --preset "$preset" -U 'LibTorch_*' ${torch:+"$torch"} "${fast[@]}" "$@" \
    >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "cmake --preset $preset failed" "see above; all of it is in $log" \
      "run scripts/setup.sh; if build/$preset is of another checkout or compiler, remove it"
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  say "Build build/$preset${1:+ ($*)}"
  cmake --build "build/$preset" ${1:+--target "$@"} ||
    fail "the build failed" "the first error is above" \
      "if the compiler was killed, memory ran out: cmake --build build/$preset -j1"
}
