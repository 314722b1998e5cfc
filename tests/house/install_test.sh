#!/usr/bin/env bash
# scripts/install with an apt that only takes notes: what it asks for, and what it says of tools that a release lacks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

system=$(mktemp -d)
trap 'rm -rf "$system"' EXIT
mkdir "$system/bin"
program() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$system/bin/$1"
  chmod +x "$system/bin/$1"
}
program dpkg-query '[[ " $NOT_INSTALLED " == *" ${!#} "* ]] || echo installed'
program apt-cache '[[ " $NOT_OFFERED " == *" ${!#} "* ]] || echo "  Candidate: 1.0"'
program apt-get "echo \"\$*\" >>'$system/asked'"
program sudo '"$@"'

# expect NOT_INSTALLED NOT_OFFERED SAID ASKED: patterns of what install prints, and of what it asks apt-get for.
expect() {
  local said asked
  : >"$system/asked"
  said=$(PATH=$system/bin:$PATH CONVOY_SKIP_INSTALL='' NOT_INSTALLED=$1 NOT_OFFERED=$2 scripts/install tests 2>&1)
  asked=$(tr '\n' ';' <"$system/asked")
  # shellcheck disable=SC2053  # patterns
  if [[ $said != $3 || $asked != $4 ]]; then
    printf 'not installed: %s; not in the release: %s\nprinted: %s\nasked apt-get for: %s\n' "$1" "$2" "$said" "$asked" >&2
    exit 1
  fi
}

clang='clang-14 libomp-14-dev'
expect '' '' 'install: all * packages are there' ''
expect "$clang" "$clang" "install: this release has no clang-14 libomp-14-dev; *install: all * packages are there" ''
expect 'libdnnl-dev' '' '*install: done' 'update -qq;install * libdnnl-dev;'
expect "libdnnl-dev $clang" "$clang" '*this release has no clang-14 libomp-14-dev;*install: done' \
  'update -qq;install * libdnnl-dev;'
expect "$clang" '' '*install: done' 'update -qq;install * clang-14 libomp-14-dev;'
# Where apt has no lists yet, they are fetched before a tool is called missing.
expect "$clang" "g++ $clang" '*this release has no clang-14*' 'update -qq;'
