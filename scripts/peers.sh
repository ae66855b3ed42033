#!/usr/bin/env bash
# Installs what the tests meet for real: MCP servers, clients and harnesses from
# npm, by exact version, into .peers/, and a few Debian packages. Without them
# `go test ./...` skips those tests and says so; with CI=true a skip is a
# failure. Node 20 or newer and npm must be there. Quick when all is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

# Exact versions: a test of today must mean the same tomorrow. Node 20 would
# also quietly get an older Claude Code if its version were left out.
npm_packages=(
    @modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/server-memory@2026.8.31
    @modelcontextprotocol/sdk@1.32.2        # TypeScript SDK: a client of the older revisions
    @modelcontextprotocol/client@2.4.0      # its successor: a client of 2026-07-28
    @modelcontextprotocol/inspector@2.12.0
    @anthropic-ai/claude-code@2.1.332
    @openai/codex@0.171.0
)

# The conformance suite needs a newer Node, which comes from npm and is kept
# apart from the Node of the machine.
conformance_packages=(
    node@22.23.3
    @modelcontextprotocol/conformance@0.2.0-alpha.12
)

# A command, and the Debian package that brings it.
declare -A debian_packages=(
    [tmux]=tmux     # terminal clients in a terminal
    [ip]=iproute2   # a network namespace in which nothing answers
    [gcc]=gcc       # the race detector
)

install_debian() {
    local missing=()
    PATH=$PATH:/usr/sbin:/sbin # where Debian has ip, and users do not look
    for command in "${!debian_packages[@]}"; do
        command -v "$command" >/dev/null || missing+=("${debian_packages[$command]}")
    done
    # gcc alone cannot link a program; its headers and C library can be absent.
    [[ " ${missing[*]} " != *" gcc "* ]] || missing+=(libc6-dev)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "peers: install these yourself, or run this as root on Debian: ${missing[*]}" >&2
        return 1
    fi
    echo "peers: apt-get install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

install_npm() {
    local stamp=.peers/installed wanted
    wanted=$(printf '%s\n' "${npm_packages[@]}" "${conformance_packages[@]}" "node $(node --version)")
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return 0
    fi
    # From nothing: what an older list brought must not stay reachable.
    rm -rf .peers
    mkdir .peers
    npm install --prefix .peers --no-audit --no-fund --loglevel=error "${npm_packages[@]}"
    mkdir .peers/conformance
    npm install --prefix .peers/conformance --no-audit --no-fund --loglevel=error "${conformance_packages[@]}"
    .peers/conformance/node_modules/node/bin/node --version
    # Both are native programs that an install script puts in place, and npm
    # can be told to run none.
    .peers/node_modules/.bin/claude --version </dev/null
    .peers/node_modules/.bin/codex --version </dev/null
    printf '%s\n' "$wanted" >"$stamp"
}

install_debian
install_npm
echo "peers: all there"
