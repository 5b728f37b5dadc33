#!/usr/bin/env bash
# built_from.sh BUILD WHEELS MODULE: what of CUDA the module was compiled and linked with is in the
# folder of the wheels. A toolkit in /usr/local/include would hide that a wheel is missing.
set -euo pipefail
build=$1 wheels=$(readlink -f "$2") module=$3
cd "$build"  # ccache may have made the headers' paths relative

object=$(find "$build/trainer/cuda" -path '*ddprun_cuda_module.dir*' -name '*.o' -printf '%P')
headers=$(ninja -C "$build" -t deps "trainer/cuda/$object" | grep -E '/(cuda|nccl|crt|nv)[^ ]*$')
grep -q '/nccl.h$' <<<"$headers" || { echo "no nccl.h among the headers"; exit 1; }
while read -r header; do
  case $(readlink -f "$header") in
    "$wheels"/* | */ddprun_cuda_module.dir/* | */trainer/cuda/*) ;;
    *) echo "not of the wheels: $header"; exit 1 ;;
  esac
done <<<"$headers"

# With the loader's cache left out: it may know of a toolkit's libraries.
loaded=$(/lib64/ld-linux-x86-64.so.2 --inhibit-cache --list "$module")
while read -r name _ path _; do
  case $name in
    libtorch* | libc10* | libcu* | libnccl* | libnv*)
      case $(readlink -f "$path") in
        "$wheels"/*) ;;
        *) echo "not of the wheels: $name => $path"; exit 1 ;;
      esac ;;
  esac
done <<<"$loaded"
grep -q 'libnccl.so' <<<"$loaded" || { echo "no NCCL among the libraries"; exit 1; }
