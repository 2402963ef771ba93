# SPDX-License-Identifier: Apache-2.0

# One set of build flags for everything: packages are compiled once.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

MODULES := . boxcutter test/controlplane test/clusterctl
CONTROLPLANE := github.com/capi-installer/capi-installer/test/controlplane/cmd/controlplane
# A folder of further rendered providers. The tests that take them are built only with it.
export PROVIDERS ?= $(abspath $(wildcard ../shared/providers))
TAGS := $(if $(PROVIDERS),-tags providers)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -ldflags '-s -w -X main.version=$(VERSION)'

# Shows a cold build getting on: go names each package as it starts on it.
COUNT := awk '/^[^ :]+$$/ { if (++n % 100 == 0) printf "  %d packages compiled\n", n; fflush(); next } { print }'
SHELL := bash
.SHELLFLAGS := -o pipefail -c

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Install real providers in a real control plane on this machine (KEEP=1 leaves it running)
	@echo "Building the programs and the demonstration; the first time takes some minutes."
	@go build -v $(LDFLAGS) -o bin/ ./cmd/... ./test/demo $(CONTROLPLANE) 2>&1 | $(COUNT)
	@bin/controlplane build
	@bin/demo $(if $(KEEP),--keep)

.PHONY: test
test: controlplane ## Run all tests
	@echo "Further rendered providers: $(or $(PROVIDERS),none; set PROVIDERS to a folder of them to have them tested)"
	@for module in $(MODULES); do echo "== $$module"; (cd $$module && go vet $(TAGS) ./... && go test -timeout 30m $(TAGS) ./...) || exit 1; done

.PHONY: controlplane
controlplane: # Build the control plane that tests use, once
	@echo "Building the test control plane; the first time takes some minutes."
	@go build -v -o bin/ $(CONTROLPLANE) 2>&1 | $(COUNT)
	@bin/controlplane build

.PHONY: build
build: ## Build both programs into bin/
	go build $(LDFLAGS) -o bin/ ./cmd/...

.PHONY: image
image: ## Make the installer's image as an OCI layout in _output/image, the same digest every time
	@GOOS=linux go build -buildvcs=false -ldflags '-s -w -buildid= -X main.version=$(VERSION)' -o _output/capi-installer ./cmd/capi-installer
	@go run ./hack/image -binary _output/capi-installer -version $(VERSION) -output _output/image

.PHONY: lint
lint: ## Run the linters of .golangci.yaml
	@for module in $(MODULES); do echo "== $$module"; (cd $$module && go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yaml ./...) || exit 1; done

.PHONY: e2e
e2e: controlplane ## Run whole what make test only samples: random sequences, the program in trouble, the least role, real providers
	cd boxcutter && E2E=full go test -timeout 60m -run RandomSequences ./blackbox
	E2E=full go test -timeout 60m ./test/e2e
	E2E=full go test -timeout 60m -run LeastRole ./install
	E2E=full go test -timeout 30m -run RefusesOfRealProviders ./cmd/capi-manifests

.PHONY: bench
bench: controlplane ## Run the benchmarks: extraction beside crane, installation beside kubectl
	go run ./test/bench
	go test $(TAGS) -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /test/)
	$(if $(PROVIDERS),go test $(TAGS) -run SixteenRealProviders -v -count 1 -timeout 30m ./test/e2e | grep -v '^ *{')
	cd boxcutter && go test -run '^$$' -bench BesideKubectl -benchtime 1x -timeout 30m ./blackbox

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@git ls-files '*_test.go' | xargs grep -Ho '^func Fuzz[A-Za-z0-9_]*' | sed 's|^|./|; s|/[^/]*:func | |' | while read -r dir target; do \
	  echo "== $$dir $$target"; \
	  (cd $$dir && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x . </dev/null) || exit 1; \
	done

.PHONY: generate
generate: ## Write the generated files anew
	go generate ./...

.PHONY: verify
verify: generate ## Check that generated files, modules and formatting are as committed
	@for module in $(MODULES); do (cd $$module && go mod tidy) || exit 1; done
	gofmt -w $$(git ls-files '*.go')
	git diff --exit-code

.PHONY: clean
clean: ## Remove what make built in this folder
	rm -rf bin _output
