#!/usr/bin/env bash
# hardening_test.sh PROGRAM...: checks that each program was built with the guards of cmake/ConvoyOptions.cmake.
set -uo pipefail

command -v readelf >/dev/null || {
  echo "skipped: readelf is not installed (package binutils)"
  exit 77
}

failed=0

# expect PROGRAM GUARD PATTERN, with readelf's output on standard input
expect() {
  grep -qE "$3" || {
    echo "$1 lacks $2" >&2
    failed=1
  }
}

for program in "$@"; do
  expect "$program" "a position-independent program" 'Type: +DYN' < <(readelf --file-header --wide "$program")
  expect "$program" "relocations that are read-only (-z relro)" GNU_RELRO < <(readelf --program-headers --wide "$program")
  expect "$program" "symbols bound at the start (-z now)" 'FLAGS.* NOW' < <(readelf --dynamic --wide "$program")
  expect "$program" "guarded return addresses (-fstack-protector-strong)" __stack_chk_fail < <(readelf --symbols --wide "$program")
  expect "$program" "checked calls of libc (-D_FORTIFY_SOURCE=3)" '__[a-z]+_chk@' < <(readelf --symbols --wide "$program")
  expect "$program" "checked indices (-D_GLIBCXX_ASSERTIONS)" glibcxx_assert_fail < <(readelf --symbols --wide "$program")
done
exit "$failed"
