#!/usr/bin/env bash
# Installs what building ddprun needs, on Debian 12 or Ubuntu 22.04 and newer, as root or with sudo.
# What is there already is left alone, so it can be run again at any time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--launcher | [--tests] [--peers] [--cuda]] [--no-apt]

  (none)     compiler, build tools and libraries (apt), LibTorch (PyPI, into .deps/venv; 1.3 GB)
  --launcher only what ddprun itself is built with (the preset "core"): no LibTorch, no Python
  --tests    and what the tests are built with
  --peers    and what tests and benchmarks compare with: PyTorch in Python, OpenMPI, MPICH (5 GB)
  --cuda     and what LibTorch needs on GPUs, and libddprun_cuda.so to be built (docs/gpu.md)
  --no-apt   install no system packages: those needed are there, or installed by other means

  DDPRUN_TORCH=FOLDER   use this LibTorch (an unpacked libtorch, or the torch folder of a Python
                        environment; 2.11 or newer) and install none
  PYTHON=PROGRAM        the Python to make .deps/venv with (3.10 to 3.14)
TEXT
}

VENV=$ROOT/.deps/venv
LOG=$ROOT/.deps/setup.log
APT_LAUNCHER="g++ cmake ninja-build nlohmann-json3-dev libasio-dev libspdlog-dev
              libsodium-dev"
APT_BUILD="ccache git python3 python3-venv libcli11-dev libicu-dev libucx-dev libsimdjson-dev
           libjpeg-dev libpng-dev zlib1g-dev"
APT_TESTS="libgtest-dev libgmock-dev mandoc zsh clang clang-format clang-tidy doxygen iproute2
           openssh-client openssh-server"
APT_PEERS="openmpi-bin libopenmpi-dev mpich libmpich-dev tmux slurm-wlm munge"

# Ends the script unless as_root will work.
require_root() {
  local remedy="have them installed and give --no-apt: ${missing[*]}"
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "cannot install system packages" "not root, and there is no sudo" \
      "run this script as root, or $remedy"
  elif [ "$(id -u)" != 0 ] && [ ! -t 0 ] && ! sudo -n true 2>/dev/null; then
    fail "cannot install system packages" "sudo wants a password and there is no terminal" \
      "run this script in a terminal or as root, or $remedy"
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# require_space FOLDER MIB PURPOSE
require_space() {
  local free
  free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
  [ "$free" -ge "$2" ] || fail "not enough disk space for $3" \
    "$1 has $free MiB free, $2 MiB are needed" \
    "make room there, or move the checkout to a larger disk"
}

# Names in $missing the packages of its arguments that dpkg does not have.
find_missing() {
  missing=()
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
}

apt_packages() {
  if ! command -v apt-get >/dev/null; then
    fail "cannot install system packages" "this system has no apt-get: it is not Debian or Ubuntu" \
      "install the like of these by its own means and give --no-apt: $*"
  fi
  find_missing "$@"
  if [ ${#missing[@]} = 0 ]; then
    say "System packages: all $# are installed"
    return
  fi
  say "System packages: installing ${missing[*]}"
  require_root
  require_space / 1000 "system packages"
  # 120 s: another apt may be at work, as it is on a machine that has just started. What update
  # could not fetch matters only if a package is then not found.
  local apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
  as_root "${apt_get[@]}" update >>"$LOG" 2>&1 || true
  if ! as_root "${apt_get[@]}" install --no-install-recommends "${missing[@]}" >>"$LOG" 2>&1; then
    grep -E '^(E|Err|W)[: ]' "$LOG" | tail -n 8 >&2 || true
    fail "apt-get failed" "see above; its whole output is in $LOG" \
      "check the network, the disk and apt's sources (Ubuntu: universe), then run this again"
  fi
}

# The Python for .deps/venv: the system's before others, which come and go.
choose_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3 python3.14 python3.13 \
      python3.12 python3.11 python3.10; do
    command -v "$name" >/dev/null || continue
    if "$name" -c 'import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null; then
      echo "$name"
      return
    fi
    [ "$name" != "${PYTHON:-}" ] || return 1
  done
  return 1
}

make_venv() {
  # Its Python may have gone or changed since: a venv is links to the one that made it.
  if "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
  local python
  python=$(choose_python) || fail "no usable Python" \
    "python3 is missing, not 3.10 to 3.14, or without its venv module${PYTHON:+ (PYTHON=$PYTHON)}" \
    "apt-get install python3-venv, or name one with PYTHON=PROGRAM"
  say "Python: making .deps/venv with $python ($("$python" --version 2>&1))"
  rm -rf "$VENV"
  "$python" -m venv "$VENV" >>"$LOG" 2>&1 || fail "$python -m venv $VENV failed" \
    "the reason is at the end of $LOG" "apt-get install python3-venv, or make room on the disk"
}

# python_packages NAME MIB [FOLDER]: installs scripts/requirements/NAME.txt, if not done, into
# .deps/venv or into a folder there.
python_packages() {
  local list=scripts/requirements/$1.txt done_mark=$VENV/.installed-$1 place=.deps/venv${3:+/$3}
  if cmp -s "$list" "$done_mark"; then
    say "Python packages of $list: installed"
    return
  fi
  say "Python packages: installing $list into $place (up to $2 MB)"
  if [ "$(uname -m)" != x86_64 ]; then
    fail "no pinned LibTorch for this machine" "it is $(uname -m), the pinned wheels are x86-64" \
      "name a LibTorch 2.11 or newer: DDPRUN_TORCH=FOLDER scripts/setup.sh"
  fi
  require_space "$VENV" $(($2 * 3 / 2)) "$list"
  # --no-deps: the lists are complete, and LibTorch alone needs only two of torch's many
  # dependencies. TMPDIR: the wheels are unpacked there, and /tmp is often a small tmpfs.
  mkdir -p "$ROOT/.deps/tmp"
  local result=0
  TMPDIR=$ROOT/.deps/tmp "$VENV/bin/python" -m pip install --no-deps --require-hashes \
    --only-binary=:all: --disable-pip-version-check --retries 2 --progress-bar off -r "$list" \
    ${3:+--upgrade --target "$VENV/$3"} \
    >>"$LOG" 2>&1 || result=$?
  rm -rf "$ROOT/.deps/tmp"
  if [ "$result" != 0 ]; then
    grep -iE 'error|no space|warning: retrying' "$LOG" | tail -n 6 >&2 || true
    fail "pip could not install $list" "see above; its whole output is in $LOG" \
      "check the network (pip reads PIP_INDEX_URL, HTTPS_PROXY) and the disk, then run this again"
  fi
  cp "$list" "$done_mark"
}

libtorch() {
  if [ -n "${DDPRUN_TORCH:-}" ]; then
    local file
    for file in include/ATen/ATen.h lib/libtorch_cpu.so; do
      [ -e "$DDPRUN_TORCH/$file" ] || fail "DDPRUN_TORCH=$DDPRUN_TORCH is not a LibTorch" \
        "$file is not there" \
        "name the folder that holds include/ and lib/, or unset it to have LibTorch installed"
    done
    say "LibTorch: $DDPRUN_TORCH"
    [ "$peers" = 1 ] || return 0
  fi
  make_venv
  python_packages torch 1400
  [ "$cuda" = 0 ] || python_packages cuda 3400
  [ "$peers" = 0 ] || python_packages peers 750
  [ "$peers" = 0 ] || python_packages trackers 200 trackers
  "$VENV/bin/python" - <<'PYTHON' || fail "the installed LibTorch does not load" \
    "see above" "remove .deps/venv and run this again"
import ctypes, glob, sys
ctypes.CDLL(glob.glob(sys.prefix + "/lib/python3*/site-packages/torch/lib/libtorch_cpu.so")[0])
PYTHON
}

launcher=0 tests=0 peers=0 cuda=0 apt=1
for option in "$@"; do
  case $option in
    --launcher) launcher=1 ;;
    --tests) tests=1 ;;
    --peers) peers=1 cuda=1 ;;  # PyTorch's Python package loads the CUDA part, GPU or not
    --cuda) cuda=1 ;;
    --no-apt) apt=0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown option $option" "it is none of the above" "leave it out" ;;
  esac
done

[ "$launcher" = 0 ] || [ "$tests$cuda" = 00 ] || fail "--launcher leaves out what --tests, \
--peers and --cuda install" "they were given together" "give --launcher alone, or leave it out"

if ! mkdir -p "$ROOT/.deps" 2>/dev/null || ! : 2>/dev/null >"$LOG"; then
  fail "cannot write to $ROOT/.deps" "$(id -un) may not, or the disk is full" \
    "run this as the owner of the checkout, or make room"
fi
if [ "$apt" = 1 ]; then
  # shellcheck disable=SC2046,SC2086  # lists of words
  apt_packages $APT_LAUNCHER $([ "$launcher" = 1 ] || echo $APT_BUILD) \
    $([ "$tests" = 0 ] || echo $APT_TESTS) \
    $([ "$peers" = 0 ] || echo $APT_PEERS)
  # Ubuntu 22.04 has g++ 11 by default and 12 beside it.
  version_at_least 12 "$(g++ -dumpversion)" || apt_packages g++-12
fi
[ "$launcher" = 1 ] || libtorch
