#!/usr/bin/env bash
# Formats every C++ file that git knows or would add; with --check only says which files differ.
# Exit code 77: clang-format 14 is not installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Versions of clang-format disagree with each other, so there is one.
for formatter in clang-format-14 clang-format ''; do
  if [[ $("$formatter" --version 2>/dev/null || true) == *"version 14."* ]]; then break; fi
done
if [ -z "$formatter" ]; then
  say "clang-format 14 is not installed: apt-get install clang-format-14"
  exit 77
fi

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h')
case ${1:-} in
  '') "$formatter" -i "${files[@]}" ;;
  --check)
    "$formatter" --dry-run --Werror "${files[@]}"
    say "${#files[@]} files are formatted"
    ;;
  *) fail "unknown option $1" "there is only --check" "leave it out" ;;
esac
