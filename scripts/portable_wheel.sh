#!/usr/bin/env bash
# Makes dist/ddprun-VERSION-py3-none-manylinux_2_28_x86_64.whl: ddprun alone, for every x86-64 Linux
# with glibc 2.28 (of 2018) or newer. After scripts/setup.sh --launcher, with python3-venv. PyPI's
# zig is the compiler, with the symbols of the old glibc and with a C++ library to link statically.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ $# != 0 ]; then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"
  exit
fi
GLIBC=2.28
PLATFORM=manylinux_${GLIBC/./_}_x86_64
TOOLS=$ROOT/.deps/portable
WORK=$ROOT/build/portable
LIST=scripts/requirements/portable.txt
rm -rf "$WORK"
mkdir -p "$WORK"

logged() { "$@" >"$WORK/log" 2>&1 || fail "this failed: $*" "$(tail -n 30 "$WORK/log")" "$todo"; }

if ! cmp -s "$LIST" "$TOOLS/installed"; then
  say "Tools of $LIST, into .deps/portable"
  todo="apt-get install python3-venv; check the network (pip reads PIP_INDEX_URL, HTTPS_PROXY)"
  rm -rf "$TOOLS"
  logged "${PYTHON:-/usr/bin/python3}" -m venv "$TOOLS"
  logged "$TOOLS/bin/pip" install --no-deps --require-hashes --only-binary=:all: -r "$LIST"
  cp "$LIST" "$TOOLS/installed"
fi

# The system's libraries are copied, because beside them are the headers of its own C library.
shopt -s nullglob
todo="scripts/setup.sh --launcher"
logged cp -r --parents -t "$WORK" /usr/include/{asio,asio.hpp,fmt,nlohmann,sodium,sodium.h,spdlog} \
  /usr/lib/x86_64-linux-gnu/{cmake/{fmt,spdlog},libsodium.a} \
  /usr/lib/x86_64-linux-gnu/lib{fmt,spdlog}.* /usr/{lib,share}/cmake/nlohmann_json*

say "Build, for glibc $GLIBC"
export PATH=$TOOLS/bin:$PATH ZIG_GLOBAL_CACHE_DIR=$TOOLS/cache
CXX="$(echo "$TOOLS"/lib/python3*/site-packages/ziglang/zig) c++ -target x86_64-linux-gnu.$GLIBC"
export CXX CXXFLAGS="-g0 -isystem $WORK/usr/include" LDFLAGS=-s
export CMAKE_PREFIX_PATH=$WORK/usr CMAKE_ARGS=-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu
todo="see above"
logged pip wheel --no-build-isolation --no-deps -w "$WORK/wheel" .

# Fails if the program needs anything that a system of that age may not have.
say "Check"
built=$(echo "$WORK"/wheel/*.whl)
logged auditwheel repair --plat "$PLATFORM" --only-plat -w dist "$built"
wheel=dist/$(basename "${built/linux_x86_64/$PLATFORM}")
auditwheel show "$wheel"
say "$wheel: $(($(stat -c %s "$wheel") / 1024)) KiB"
