#!/usr/bin/env bash
# Tries every way to get ddprun alone, each in an empty Debian of its own: the commands of
# README.md, cpack's .deb and .tar.gz, pip from a checkout, a wheel from an sdist; the portable one
# on Debian 11. With PyTorch in .deps/venv (scripts/setup.sh --peers) also the wheel beside it. As
# root, with debootstrap and the network; 3 GB under TMPDIR, and nothing of it is left.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ $# != 0 ]; then
  sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"
  exit
fi
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || fail "cannot make an empty Debian" \
  "not root, or there is no debootstrap" "as root: apt-get install debootstrap"

WORK=$(mktemp -d)
trap 'rm -rf --one-file-system "$WORK"' EXIT
TIMEFORMAT='   %R s, CPU %U + %S s'
LIBRARIES="nlohmann-json3-dev libasio-dev libspdlog-dev libsodium-dev"

# in_root NAME COMMANDS: runs them there, with mounts and processes that end with them; of this
# environment it has what leads to the package index.
in_root() {
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --propagation private --pid --fork --kill-child bash -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"
    mount -t tmpfs shm "$0/dev/shm"
    keep() { [ -z "${!1:-}" ] || echo "$1=${!1}"; }
    exec chroot "$0" /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      $(keep http_proxy) $(keep https_proxy) $(keep HTTPS_PROXY) $(keep PIP_INDEX_URL) \
      ${PIP_CERT:+PIP_CERT=/root/certificates.crt} \
      APT="apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0" bash -euo pipefail -c "$1"' \
    "$WORK/$1" "cd /root; $2"
}

quietly() {
  "$@" >"$WORK/log" 2>&1 || fail "this failed: $*" "$(tail -n 20 "$WORK/log")" "see above"
}

new_root() { cp -a --reflink=auto "$WORK/empty" "$WORK/$1"; }

# installed NAME PREFIX: what every way has to give.
installed() {
  in_root "$1" "
    $2/bin/ddprun --version | head -n 1
    $2/bin/ddprun explain worker-failed | grep -q .
    for file in man/man1/ddprun.1 doc/ddprun/docs/{errors,torchrun}.md \
      doc/ddprun/{README.md,LICENSE} \
      bash-completion/completions/ddprun zsh/site-functions/_ddprun; do
      test -s $2/share/\$file; done
    test ! -e $2/lib/libddprun_base.a
    $2/bin/ddprun --nproc_per_node=2 worker.py | sort
    if $2/bin/ddprun --nproc_per_node=2 worker.py fail 2>failed; then exit 1; fi
    grep -q 'Rank 1 exited with code 7' failed" | sed 's/^/   /'
}

say "An empty Debian"
# Of the mirror and the release that this machine has.
source /etc/os-release
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Component: main' \
  "Codename: $VERSION_CODENAME" | head -n 1)
quietly debootstrap --variant=minbase "$VERSION_CODENAME" "$WORK/empty" "$mirror"
[ -z "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$WORK/empty/root/certificates.crt"
cat >"$WORK/empty/root/worker.py" <<'PYTHON'
"""Rank 1 tells rank 0 its rank over a socket; with an argument it fails instead."""
import os, socket, sys, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if sys.argv[1:] and rank == 1:
    sys.exit(7)
with socket.socket(socket.AF_UNIX) as peer:
    if rank == 0:
        if os.path.exists("meet"):
            os.remove("meet")
        peer.bind("meet.new")
        peer.listen()
        os.rename("meet.new", "meet")
        heard = peer.accept()[0].recv(10).decode()
        os.remove("meet")
        print(f"rank 0 of {size} heard of rank {heard}, store at port {os.environ['MASTER_PORT']}")
    else:
        while peer.connect_ex("meet"):
            time.sleep(0.05)
        peer.sendall(str(rank).encode())
        print(f"rank {rank} of {size}, local rank {os.environ['LOCAL_RANK']}")
PYTHON
quietly in_root empty '$APT update'
new_root source
mkdir "$WORK/source/src"
git ls-files -z | tar -c --null --ignore-failed-read -T - | tar -x -C "$WORK/source/src"
cp -a "$WORK/source/src" "$WORK/src"

say "The commands of README.md"
time quietly in_root source 'cd /src && scripts/setup.sh --launcher'
time quietly in_root source 'cd /src && cmake --preset core && cmake --build build/core'
time quietly in_root source 'cd /src && cmake --install build/core'
quietly in_root source '$APT install python3-minimal'
installed source /usr/local

say "cpack"
quietly in_root source '$APT install dpkg-dev file && cd /src && cmake --preset core &&
  cpack --config build/core/CPackConfig.cmake -B /packages'
for package in "$WORK"/source/packages/ddprun*.{deb,tar.gz}; do
  printf '   %s: %d KiB\n' "$(basename "$package")" $(($(stat -c %s "$package") / 1024))
done
dpkg-deb -f "$WORK"/source/packages/*.deb Depends Installed-Size | sed 's/^/   /'

say "The .deb"
new_root deb
cp "$WORK"/source/packages/*.deb "$WORK/deb/root"
time quietly in_root deb '$APT install ./ddprun*.deb'
quietly in_root deb '$APT install python3-minimal'
installed deb /usr
quietly in_root deb '$APT remove ddprun && test ! -e /usr/bin/ddprun'

say "The .tar.gz"
new_root tar
tar -x -C "$WORK/tar/usr/local" --strip-components=1 -f "$WORK"/source/packages/*.tar.gz
quietly in_root tar '$APT install python3-minimal'
installed tar /usr/local

say "pip from a checkout"
new_root pip
cp -a "$WORK/src" "$WORK/pip/src"
quietly in_root pip "\$APT install python3-venv g++ && python3 -m venv /venv"
if in_root pip '/venv/bin/pip install /src' >"$WORK/log" 2>&1 ||
  ! grep -q "apt-get install $LIBRARIES" "$WORK/log"; then
  fail "pip did not say what to install" "$(tail "$WORK/log")" "see cmake/LauncherNeeds.cmake"
fi
quietly in_root pip "\$APT install $LIBRARIES"
time quietly in_root pip '/venv/bin/pip install /src'
installed pip /venv
[ ! -e "$WORK/pip/src/build" ] || fail "pip left files in the checkout" "build/" "pyproject.toml"

say "A wheel, from an sdist"
mkdir -p "$WORK/pip/src/.deps" "$WORK/pip/src/build"
touch "$WORK/pip/src/.deps/must_not_be_packed" "$WORK/pip/src/build/must_not_be_packed"
quietly in_root pip '/venv/bin/pip install scikit-build-core && cd /src && /venv/bin/python -c "
import scikit_build_core.build as build
build.build_sdist(\"/dist\")" && ! tar -tf /dist/*.tar.gz | grep must_not_be_packed &&
  /venv/bin/pip wheel --no-deps -w /dist /dist/*.tar.gz'
for package in "$WORK"/pip/dist/*; do
  printf '   %s: %d KiB\n' "$(basename "$package")" $(($(stat -c %s "$package") / 1024))
done
new_root wheel
cp "$WORK"/pip/dist/*.whl "$WORK/wheel/root"
quietly in_root wheel '$APT install python3-venv && python3 -m venv /venv'
time quietly in_root wheel '/venv/bin/pip install --no-index *.whl'
installed wheel /venv

if [ "$ID" = debian ]; then
  say "The portable wheel, on Debian 11"
  quietly in_root source '$APT install python3-venv'
  time quietly in_root source 'cd /src && scripts/portable_wheel.sh'
  quietly debootstrap --variant=minbase bullseye "$WORK/old" "$mirror"
  cp "$WORK"/empty/root/* "$WORK"/source/src/dist/*.whl "$WORK/old/root"
  quietly in_root old '$APT update && $APT install python3-venv && python3 -m venv /venv'
  time quietly in_root old '/venv/bin/pip install --no-index *.whl'
  installed old /venv
fi

torch=$(compgen -G "$ROOT/.deps/venv/lib/python3*/site-packages/transformers" || true)
if [ -n "$torch" ]; then
  say "The wheel beside PyTorch"
  .deps/venv/bin/python -m venv "$WORK/venv"
  dirname "$torch" >"$(echo "$WORK"/venv/lib/python3*/site-packages)/torch.pth"
  quietly "$WORK/venv/bin/pip" install --no-index "$WORK"/pip/dist/*.whl
  "$WORK/venv/bin/ddprun" --nproc_per_node=2 examples/python_script/train.py | sed 's/^/   /'

  say "The backend of torch.distributed, as a wheel"
  quietly "$WORK/venv/bin/pip" install scikit-build-core
  quietly "$WORK/venv/bin/pip" wheel --no-build-isolation --no-deps -w "$WORK/dist" ./python
  quietly "$WORK/venv/bin/pip" install --no-index --no-deps "$WORK"/dist/ddprun_torch-*.whl
  cat >"$WORK/sum.py" <<'SCRIPT'
import torch
import torch.distributed as dist
dist.init_process_group("ddprun")
total = torch.ones(3)
dist.all_reduce(total)
print("rank", dist.get_rank(), "of backend", dist.get_backend(), "has", total.tolist())
dist.destroy_process_group()
SCRIPT
  "$WORK/venv/bin/ddprun" --nproc_per_node=2 "$WORK/sum.py" | sed 's/^/   /'

  say "The same, for older systems"
  quietly scripts/portable_wheel.sh torch
  quietly "$WORK/venv/bin/pip" uninstall -y ddprun-torch
  quietly "$WORK/venv/bin/pip" install --no-index --no-deps dist/ddprun_torch-*manylinux*.whl
  "$WORK/venv/bin/ddprun" --nproc_per_node=2 "$WORK/sum.py" | sed 's/^/   /'
fi
say "All of them work"
