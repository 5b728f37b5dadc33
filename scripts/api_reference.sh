#!/usr/bin/env bash
# Builds the API reference as docs/Doxyfile says, into build/api_reference or the folder that is
# named; warnings, such as a reference to nothing, fail. Exit code 77: Doxygen is not installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! command -v doxygen >/dev/null; then
  say "Doxygen is not installed: apt-get install doxygen"
  exit 77
fi
folder=${1:-build/api_reference}
mkdir -p "$folder"
# Versions of Doxygen warn about other things, so the warnings of one version are errors.
strict=FAIL_ON_WARNINGS
[[ $(doxygen --version) == 1.9.4* ]] || strict=NO
doxygen - <<<"$(cat docs/Doxyfile)
OUTPUT_DIRECTORY = \"$folder\"
WARN_AS_ERROR = $strict"
say "The API reference: $folder/index.html"
