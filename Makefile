# The same commands as in CI; .ci/run is the whole of it.

.PHONY: bench matrix build test race vet fuzz soak docs cross peers ci

build:
	CGO_ENABLED=0 go build -trimpath -o bin/toolcrib .

# Needs Go only. Tests of real peers that are missing say SKIP and why.
test:
	go test ./...

race:
	go test -race -shuffle=on ./...

vet:
	go vet ./...

# Some thousand inputs for each fuzz target, a few seconds each.
fuzz:
	bash scripts/fuzz.sh 20000x

# Many clients on servers that hang, crash, flood and cut. SOAK=1m is a shorter
# one; SEED repeats one by the number that it printed.
SOAK ?= 10m
SEED ?= 0
soak:
	go test ./test/soak -run 'TestSoak$$' -v -count=1 -timeout 30m -soak $(SOAK) -seed $(SEED)

# What works for each pairing of a client and a server, as a table; what fails
# stands above and below it.
matrix:
	@bash -o pipefail -c 'go test ./test/matrix -run Matrix -count=1 -v | sed -E "/^ *(===|--- PASS)/d"'

# What a call costs, beside a bare reverse proxy; see docs/bench.md.
bench:
	go run ./test/bench

# The reference in docs/reference is made from the program.
docs:
	go run . docs docs/reference

cross:
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go build ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go vet ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build ./...

# The real servers, clients and harnesses that tests meet.
peers:
	bash scripts/peers.sh

ci:
	bash .ci/run
