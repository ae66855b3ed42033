#!/usr/bin/env bash
# Runs every fuzz target for a short time: scripts/fuzz.sh [TIME], 5s by
# default. A fault it finds is written below the package's testdata/fuzz, and
# from then on every `go test` tries it.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-5s}
grep -rl --include='*_test.go' '^func Fuzz' internal | sort | while read -r file; do
    package=./$(dirname "$file")
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
        echo "fuzz $package $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
    done
done
