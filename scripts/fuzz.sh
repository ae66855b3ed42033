#!/usr/bin/env bash
# Runs every fuzz target with some inputs: scripts/fuzz.sh [AMOUNT], 20000x by
# default; a time such as 1m works too, but a run may then end in "context
# deadline exceeded" although nothing was found. A fault it finds is written
# below the package's testdata/fuzz, and from then on every `go test` tries it.
set -euo pipefail
cd "$(dirname "$0")/.."

amount=${1:-20000x}
grep -rl --include='*_test.go' '^func Fuzz' internal | sort | while read -r file; do
    package=./$(dirname "$file")
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
        echo "fuzz $package $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$amount" "$package" </dev/null
    done
done
