# `make help` lists the targets. `make test` installs nothing; the targets that need
# tools build them from tools/go.mod into .bin.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
BIN := $(CURDIR)/.bin
FUZZTIME ?= 5s
BENCHRUNS ?= 10
BENCHTIME ?= 10ms
GO_PACKAGES := ./...

# Tests that do less under the race detector (internal/racedetector), and their packages.
WHOLE := Allocations|EventsProjectMemory|MemoIsBounded|RepeatedElements|RawCells|MatrixOnTheKit|TestMatrix$$|RandomHistories|SpansOfALongHistory|SameForEverySchedule|SameWithCrashes|WhatAFileClaims|SortsMoreThanItHolds|BatchAsSent
WHOLE_PACKAGES := ./cmd/beamagents ./pkg/activation ./pkg/canonjson ./pkg/coders ./pkg/intent ./pkg/modelcall ./pkg/state ./pkg/transforms
# A program with the race detector sleeps for a second when it exits, unless it is told
# otherwise. The tests start hundreds of programs.
export GORACE ?= atexit_sleep_ms=50

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: demo
demo: ## Run the examples on the embedded runner, with the samples they ship with.
	go -C examples/triage run . --metrics --input sample/sample.jsonl --out ../../out/triage
	go run ./examples/quickstart --input examples/quickstart/sample/sample.jsonl --out out/quickstart
	go run ./examples/route --input examples/route/sample/sample.jsonl --out out/route-jsonl
	go run ./examples/route --input examples/route/sample/sample.binpb --out out/route-binpb
	go run ./examples/events --input examples/events/sample/sample.jsonl --out out/events
	go run ./examples/memory --input examples/memory/sample/sample.jsonl --out out/memory

.PHONY: demo-flink
demo-flink: ## Run the triage example on a Flink cluster, and kill a worker while it runs. Needs Java 17 and Maven.
	go build -C examples/triage -o ../../out/bin/ . ./flinkdemo
	out/bin/flinkdemo --program out/bin/triage --input examples/triage/sample/sample.jsonl --out out/triage-flink

.PHONY: install
install: ## Install the command line.
	go install ./cmd/beamagents

.PHONY: test
test: ## Run all tests with the race detector, fuzz targets with their seeds.
	go test -race -timeout 15m $(GO_PACKAGES)
	go test -timeout 15m -run '$(WHOLE)' $(WHOLE_PACKAGES)
	go -C tools test ./ratios
	go -C examples/triage test ./...

.PHONY: test-contrib
test-contrib: ## Run the tests of the modules in contrib, each with its own dependencies.
	@for mod in contrib/*/go.mod; do \
		echo "test $${mod%/go.mod}"; \
		go -C "$${mod%/go.mod}" vet ./...; \
		go -C "$${mod%/go.mod}" test -race -timeout 15m ./...; \
	done

# Go's fuzzer sometimes reports its own time limit as a failure, without an input that
# fails. The loop accepts that.
.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (5s).
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | cut -d' ' -f2 | sort -u); do \
			echo "fuzz $$dir $$target"; \
			log=$$(mktemp); \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -timeout 10m "$$dir" 2>&1 | tee "$$log" || \
				{ grep -qE '^ +context deadline exceeded$$' "$$log" && ! grep -qE 'Failing input|panic|_test.go' "$$log"; } || exit 1; \
			rm -f "$$log"; \
		done; \
	done

# Whole runs come one after the other, so that a busy moment of the machine affects everything
# that is compared. GOGC lets a process of 6 MB collect garbage like one with a heap of 60 MB.
.PHONY: bench
bench: ## Print the table of ratios of docs/performance.md: medians of BENCHRUNS (10) runs.
	@mkdir -p out/bench
	go test -c -o out/bench/coders.test ./pkg/coders
	go test -c -o out/bench/transforms.test ./pkg/transforms
	go test -c -o out/bench/state.test ./pkg/state
	@: >out/bench/runs.txt; for run in $$(seq $(BENCHRUNS)); do \
		(cd pkg/coders && GOGC=1000 ../../out/bench/coders.test -test.run '^$$' -test.bench '^BenchmarkCoder$$' -test.benchtime $(BENCHTIME)); \
		(cd pkg/transforms && GOGC=1000 ../../out/bench/transforms.test -test.run '^$$' -test.bench '^BenchmarkPrism$$' -test.benchtime 1x 2>&1); \
		(cd pkg/transforms && GOGC=1000 ../../out/bench/transforms.test -test.run '^$$' -test.bench '^BenchmarkPrismAgent$$' -test.benchtime 1x 2>&1); \
		(cd pkg/transforms && GOGC=1000 ../../out/bench/transforms.test -test.run '^$$' -test.bench '^BenchmarkAgent$$' -test.benchtime $(BENCHTIME) 2>&1); \
		(cd pkg/state && GOGC=1000 ../../out/bench/state.test -test.run '^$$' -test.bench '^BenchmarkPrism$$' -test.benchtime 1x 2>&1); \
	done >>out/bench/runs.txt
	@go -C tools run ./ratios <out/bench/runs.txt

.PHONY: bench-packages
bench-packages: ## Run the benchmarks of the packages that link no Beam.
	go test -run '^$$' -bench . -benchmem ./pkg/canonjson ./pkg/intent ./pkg/memory ./pkg/replay ./pkg/deadletter ./pkg/events ./pkg/modelcall

.PHONY: soak
soak: ## Run the long tests: millions of elements, and gigabytes of messages, in flat memory.
	go test -tags soak -run '^TestSoak' -v -timeout 60m $(GO_PACKAGES)

# Needs Java 17 and Maven. The first run fetches 160 MB of jars.
.PHONY: test-flink
test-flink: ## Crash jobs on a Flink cluster, which the tests start from Maven artifacts.
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ echo "make test-flink needs Java 17 and Maven (Debian: apt-get install openjdk-17-jre-headless maven)" >&2; exit 1; }
	go test -tags flink -count=1 -timeout 15m ./internal/flinktest
	go test -tags flink -count=1 -timeout 15m -parallel 4 ./internal/flinktest/jobs
	go test -tags flink -count=1 -timeout 15m -run '^TestFlink' ./pkg/transforms
	go test -tags flink -count=1 -timeout 15m -parallel 4 ./pkg/compat/graph/upgrade
	go -C examples/triage test -tags flink -count=1 -timeout 15m -run '^TestDemo' ./flinkdemo

# Whole runs come one after the other, as in bench.
FLINKRUNS ?= 2
.PHONY: bench-flink
bench-flink: ## Compare the throughput of agents-flink with the SDK's runner on one cluster, mean of FLINKRUNS (2) runs.
	go test -tags flink -run '^$$' -bench '^BenchmarkThroughput$$' -benchtime $(FLINKRUNS)x -timeout 15m ./internal/flinktest/jobs

SOAKRUNS ?= 10
.PHONY: soak-flink
soak-flink: ## Run the tests of test-flink SOAKRUNS (10) times, at other places, once on the newest Flink, and every case of the upgrade matrix.
	for run in $$(seq $(SOAKRUNS)); do $(MAKE) --no-print-directory test-flink; done
	go test -tags flink -count=1 -timeout 60m -parallel 4 ./pkg/compat/graph/upgrade -whole
	FLINKTEST_POM=$(CURDIR)/internal/flinktest/pom-flink-1.20.xml go test -tags flink -count=1 -timeout 30m -parallel 4 ./internal/flinktest/jobs

.PHONY: freeze
freeze: ## Keep what the release TAG is known by and stores, in golden/release/TAG.
	@go run ./golden/freeze "$(TAG)" # refuses a bad tag before the tests run
	@# The files to copy must match the code.
	go test ./golden/... ./pkg/coders ./pkg/compat/... ./pkg/transforms ./pkg/state
	go test -run '^TestWriteCells$$' ./pkg/state -write-cells "$(CURDIR)/out/freeze"
	go test -run '^TestWriteAgents$$' ./pkg/transforms -write-agents "$(CURDIR)/out/freeze"
	go run ./golden/freeze out/freeze "$(TAG)"

.PHONY: parity
parity: $(BIN)/buf ## Encode the golden values with Python and, where there is Maven, with Java; compare both ways.
	rm -rf .parity/python .parity/java
	mkdir -p .parity
	$(BIN)/buf build -o .parity/schema.binpb
	python3 -m venv .parity/venv
	.parity/venv/bin/pip install --quiet --disable-pip-version-check -r golden/parity/python/requirements.txt
	.parity/venv/bin/python golden/parity/python/parity.py .parity/schema.binpb golden/v1 .parity/python
	@if command -v mvn >/dev/null; then \
		mvn -q -B -f golden/parity/java/pom.xml -Dmaven.repo.local=$(CURDIR)/.parity/m2 -Dparity.build=$(CURDIR)/.parity/build compile exec:java \
			-Dexec.args=".parity/schema.binpb golden/v1 .parity/java"; \
	fi
	go run ./golden/parity .parity
	go test ./golden/...

.PHONY: generate
generate: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-vtproto ## Generate Go, and the schema of the command line, from the .proto files.
	$(BIN)/buf generate
	$(BIN)/buf build proto --path proto/beam_agents/v1 -o cmd/beamagents/schema.binpb

.PHONY: check-generated
check-generated: $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-vtproto ## Fail if make generate would change anything.
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(BIN)/buf generate --output "$$dir"; \
	for f in $$(cd "$$dir" && find . -type f) $$(find proto examples -name '*.pb.go'); do \
		diff -u "$$f" "$$dir/$$f" || { echo "$$f is out of date: run make generate" >&2; exit 1; }; \
	done; \
	$(BIN)/buf build proto --path proto/beam_agents/v1 -o "$$dir/schema.binpb"; \
	cmp cmd/beamagents/schema.binpb "$$dir/schema.binpb" || { echo "run make generate" >&2; exit 1; }
	$(BIN)/buf breaking proto --against proto/baseline/release.binpb

.PHONY: lint
lint: $(BIN)/buf $(BIN)/golangci-lint ## Lint Go and the .proto files.
	$(BIN)/buf lint
	$(BIN)/golangci-lint run $(GO_PACKAGES)
	@for mod in contrib/*/go.mod examples/triage/go.mod; do \
		echo "lint $${mod%/go.mod}"; \
		(cd "$${mod%/go.mod}" && $(BIN)/golangci-lint run ./...); \
	done
	go vet -tags soak,flink $(GO_PACKAGES) # tests that only make soak and make test-flink build

.PHONY: tools
tools: $(BIN)/buf $(BIN)/golangci-lint $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-vtproto ## Build the tools of the other targets.

$(BIN)/buf: tools/go.mod
	cd tools && go build -o $@ github.com/bufbuild/buf/cmd/buf

$(BIN)/golangci-lint: tools/go.mod
	cd tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Built from go.mod, not from tools, because a generator must have the version of its runtime.
$(BIN)/protoc-gen-go: go.mod
	go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

$(BIN)/protoc-gen-go-vtproto: go.mod
	go build -o $@ github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto
