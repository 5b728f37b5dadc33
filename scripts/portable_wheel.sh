#!/usr/bin/env bash
# Makes a wheel for every x86-64 Linux with glibc 2.28 (of 2018) or newer, in dist/: of ddprun alone
# (portable_wheel.sh, after scripts/setup.sh --launcher) or of its backend of torch.distributed
# (portable_wheel.sh torch, after scripts/setup.sh), for the torch of .deps/venv or the folder torch
# of another environment that DDPRUN_TORCH names. Needs python3-venv; pip 20.3 installs them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}$#" in 0 | torch1) ;; *)
  sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}"
  exit ;;
esac
GLIBC=2.28
PLATFORM=manylinux_${GLIBC/./_}_x86_64
TOOLS=$ROOT/.deps/portable
WORK=$ROOT/build/portable
LIST=scripts/requirements/portable.txt
rm -rf "$WORK"
mkdir -p "$WORK/lib"

logged() { "$@" >"$WORK/log" 2>&1 || fail "this failed: $*" "$(tail -n 30 "$WORK/log")" "$todo"; }

if ! cmp -s "$LIST" "$TOOLS/installed"; then
  say "Tools of $LIST, into .deps/portable"
  todo="apt-get install python3-venv; check the network (pip reads PIP_INDEX_URL, HTTPS_PROXY)"
  rm -rf "$TOOLS"
  logged "${PYTHON:-/usr/bin/python3}" -m venv "$TOOLS"
  logged "$TOOLS/bin/pip" install --no-deps --require-hashes --only-binary=:all: -r "$LIST"
  cp "$LIST" "$TOOLS/installed"
fi
ZIG=$(echo "$TOOLS"/lib/python3*/site-packages/ziglang/zig)
export PATH=$TOOLS/bin:$PATH ZIG_GLOBAL_CACHE_DIR=$TOOLS/cache

# zig is the compiler, with the symbols of the old glibc and with a C++ library to link statically.
prepare_launcher() {
  # The system's libraries are copied, because beside them are the headers of its own C library.
  shopt -s nullglob
  logged cp -r --parents -t "$WORK" \
    /usr/include/{asio,asio.hpp,fmt,nlohmann,sodium,sodium.h,spdlog} \
    /usr/lib/x86_64-linux-gnu/{cmake/{fmt,spdlog},libsodium.a} \
    /usr/lib/x86_64-linux-gnu/lib{fmt,spdlog}.* /usr/{lib,share}/cmake/nlohmann_json*
  export CXX="$ZIG c++ -target x86_64-linux-gnu.$GLIBC"
  export CXXFLAGS="-g0 -isystem $WORK/usr/include" LDFLAGS=-s
  export CMAKE_PREFIX_PATH=$WORK/usr CMAKE_ARGS=-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu
}

# The backend shares torch's C++ library, libstdc++, so g++ compiles it. Only the linker sees an old
# system: zig's stubs of the old glibc, and the members of this libstdc++ that an old one lacks.
prepare_torch() {
  local name folder
  choose_compiler
  echo "int nothing;" >"$WORK/nothing.c"
  ZIG_GLOBAL_CACHE_DIR=$WORK/zig logged "$ZIG" cc -target "x86_64-linux-gnu.$GLIBC" -shared -fPIC \
    -o "$WORK/nothing.so" "$WORK/nothing.c"
  folder=$(dirname "$(find "$WORK/zig" -name 'libc.so.6')")
  for name in "$folder"/lib*.so.*; do
    cp "$name" "$WORK/lib"
    ln -s "$(basename "$name")" "$WORK/lib/$(basename "${name%.so.*}.so")"
  done
  cp "$(find "$WORK/zig" -name libc_nonshared.a)" "$WORK/lib"
  rm "$WORK/lib/libc.so"
  echo "GROUP ( libc.so.6 libc_nonshared.a libld.so.2 )" >"$WORK/lib/libc.so"
  logged "$CXX" -x c -O2 -fPIC -c scripts/portable_glibc.c -o "$WORK/lib/portable_glibc.o"
  (cd "$WORK/lib" && ar x "$("$CXX" -print-file-name=libstdc++.a)" condition_variable.o futex.o \
    floating_{from,to}_chars.o lt5-sstream-inst.o memory_resource.o &&
    ar rcs libnewer.a ./*.o && rm ./*.o)
  echo "INPUT ( $WORK/lib/libnewer.a $("$CXX" -print-file-name=libstdc++.so) )" \
    >"$WORK/lib/libstdc++.so"
  # The system's libstdc++ needs its own, newer glibc, which only matters to programs.
  export LDFLAGS="-s -L$WORK/lib -Wl,--allow-shlib-undefined" CXXFLAGS=-g0
}

if [ $# = 0 ]; then
  project=. todo="scripts/setup.sh --launcher"
  prepare_launcher
else
  project=./python todo=scripts/setup.sh
  prepare_torch
fi
say "Build, for glibc $GLIBC"
todo="see above"
logged pip wheel --no-build-isolation --no-deps -w "$WORK/wheel" "$project"

# Fails if the wheel needs anything that a system of that age may not have, but for torch.
say "Check"
built=$(echo "$WORK"/wheel/*.whl)
logged auditwheel repair --plat "$PLATFORM" --only-plat --exclude 'libtorch*' --exclude 'libc10*' \
  -w dist "$built"
wheel=dist/$(basename "${built/linux_x86_64/$PLATFORM}")
auditwheel show "$wheel"
say "$wheel: $(($(stat -c %s "$wheel") / 1024)) KiB"
