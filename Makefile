# SPDX-License-Identifier: Apache-2.0

# The code that evaluates signature policies needs this build tag without cgo.
comma := ,
TAG := containers_image_openpgp
# One set of build flags for everything: packages are compiled once. Without debug
# information, packages are compiled and test binaries linked in less time.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -tags=$(TAG) -gcflags=all=-dwarf=false -ldflags=-s $(filter-out -trimpath -tags=%,$(GOFLAGS))

MODULES := . third_party/boxcutter third_party/boxcutter/conformance test/controlplane test/clusterctl test/clusterctl/corewebhooks test/clusterctl/helm extension
# Modules that only pin programs, which their tools and main packages are.
PINS := test/realnode/node test/realnode/runtime test/realnode/providers test/realnode/former
CONTROLPLANE := github.com/capi-installer/capi-installer/test/controlplane/cmd/controlplane
# Folders with more test data: rendered providers, and repositories of providers. The tests
# that need PROVIDERS are compiled only if it is set.
export PROVIDERS ?=
export FORKS ?=
# This flag replaces the one in GOFLAGS.
TAGS := $(if $(PROVIDERS),-tags $(TAG)$(comma)providers)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -ldflags '-s -w -X main.version=$(VERSION)'

# Prints the progress of a cold build: go -v prints the name of each package that it compiles.
COUNT := awk '/^[^ :]+$$/ { if (++n % 100 == 0) printf "  %d packages compiled\n", n; fflush(); next } { print }'
SHELL := bash
.SHELLFLAGS := -o pipefail -c

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Install real providers in a real control plane on this machine (KEEP=1 leaves it running; REAL=1 runs them on a node, with Machines)
ifdef REAL
	@go build -o bin/ ./test/realnode/cmd/journey
	@bin/journey
else
	@echo "Building the programs and the demonstration; the first time takes some minutes."
	@go build -v $(LDFLAGS) -o bin/ ./cmd/... ./test/demo $(CONTROLPLANE) 2>&1 | $(COUNT)
	@bin/controlplane build >/dev/null
	@bin/demo $(if $(KEEP),--keep)
endif

# The packages with the longest tests have a go test of their own, beside which all others run.
SLOW := ./test/e2e ./install ./test/demo ./cmd/capi-manifests
# Tests with a control plane mostly wait, but each has its own control plane while it runs.
PARALLEL ?= 4

.PHONY: unit
unit: override PROVIDERS :=
unit: override FORKS :=
# Fewer garbage collections save a fifth of the CPU time. Tests that measure memory start their programs without it.
# make test and make lint vet.
unit: export GOGC := 400
unit: ## Run the tests that need no control plane, without the data of PROVIDERS and FORKS
	@for module in $(MODULES); do (cd $$module && go tool -modfile=$(CURDIR)/tools/go.mod gotestsum --format pkgname --hide-summary=skipped -- -vet=off -short ./...) || exit 1; done

.PHONY: test
test: export GOGC := 400
test: controlplane ## Run all tests
	@echo "Test data: PROVIDERS=$(or $(PROVIDERS),(none)) FORKS=$(or $(FORKS),(none))"
	@$(MAKE) --no-print-directory --jobs=2 test-slow test-others

TEST = go test -vet=all -timeout 60m -parallel $(PARALLEL) $(TAGS)

.PHONY: test-slow
test-slow:
	@$(TEST) $(SLOW)

.PHONY: test-others
test-others: # A module that fails does not stop the others. Packages in reverse order: at the end are those that wait least
	@result=0; \
	for module in $(filter-out .,$(MODULES)); do (cd $$module && $(TEST) ./...) || result=1; done; \
	packages=$$(go list ./... | sed "s|^$$(go list -m)|.|" | grep -vxF $(SLOW:%=-e %) | sort -r) && $(TEST) $$packages || result=1; \
	exit $$result

# The node lives in network, mount and process namespaces. test/realnode names what is missing, and exits with 1.
test-cluster availability realnode: export REALNODE_KIND ?= containers
TEST_CLUSTER := go test -vet=all -count=1 -tags $(TAG)$(comma)realnode
.PHONY: test-cluster
test-cluster: controlplane ## Run the tests on a real node: containerd, kubelet, the operator's pod and providers' programs (Linux, root, Debian packages runc and nftables); SHORT=1 omits the long steps
	JOURNEY_SHORT=$(SHORT) $(TEST_CLUSTER) -p 1 -timeout 30m ./test/realnode ./test/realnode/cmd/... ./test/realnode/journey

.PHONY: availability
availability: controlplane ## Measure Cluster API's APIs while its core provider is upgraded on a real node (as for test-cluster)
	$(TEST_CLUSTER) -v -timeout 30m ./test/realnode/coreupgrade

.PHONY: test-processes
test-processes: export REALNODE_KIND := processes
test-processes: controlplane ## Run the short journey on a node whose containers are processes, as this user and in a user namespace (Linux)
	$(TEST_CLUSTER) -p 1 -timeout 20m ./test/realnode ./test/realnode/cmd/realnode
	unshare --user --map-root-user env JOURNEY_SHORT=1 $(TEST_CLUSTER) -timeout 20m ./test/realnode/journey

VERSIONS ?= 1.30 1.34 1.37
# The shipped manifests and the program in a cluster without OpenShift, whose own CRDs need later versions: installation, upgrade, drift,
# uninstall, admission policies, lifecycle hooks, the walkthrough and the takeover from clusterctl.
.PHONY: test-versions
test-versions: controlplane ## Run the tests that depend on the version of Kubernetes with the control planes of VERSIONS
	@result=0; for minor in $(VERSIONS); do \
	  kubernetes=$$(bin/controlplane kubernetes $$minor) || { result=1; continue; }; echo "== Kubernetes $$minor"; \
	  CONTROLPLANE_KUBERNETES=$$kubernetes $(TEST) -count=1 ./test/e2e -run '^TestKubernetes_' || result=1; \
	done; exit $$result

.PHONY: realnode
realnode: controlplane ## Run a cluster with one node until Ctrl-C (REALNODE_KIND=processes: without containers)
	@go build -o bin/ ./test/realnode/cmd/realnode
	@bin/realnode

.PHONY: controlplane
controlplane: # Build the control plane that tests use, once
	@echo "Building the test control plane; the first time takes some minutes."
	@go build -v -o bin/ $(CONTROLPLANE) 2>&1 | $(COUNT)
	@bin/controlplane build

.PHONY: build
build: ## Build both programs into bin/
	go build $(LDFLAGS) -o bin/ ./cmd/...

.PHONY: image
image: ## Build the installer's image for amd64 and arm64 reproducibly, as an OCI layout in _output/image
	@go run ./hack/release -version $(VERSION) -image-only -output _output/image

IMAGE ?= quay.io/capi-installer/capi-installer
.PHONY: release
release: ## Build the artifacts of release VERSION into _output/release; IMAGE is the repository of the image, KEY a private key that signs
	@go run ./hack/release -version $(VERSION) -image $(IMAGE) $(if $(KEY),-key $(KEY)) -output _output/release

.PHONY: changelog
changelog: ## Move the unreleased changes in CHANGELOG.md to VERSION, and print the release notes
	@go run ./hack/release -changelog -version $(VERSION)

.PHONY: cross
cross: ## Build the programs for Linux, Windows and macOS on amd64 and arm64
	@for system in linux windows darwin; do for arch in amd64 arm64; do \
	  echo "== $$system/$$arch"; GOOS=$$system GOARCH=$$arch go build -o /dev/null ./cmd/capi-manifests && GOOS=$$system GOARCH=$$arch go build -o /dev/null ./cmd/capi-installer || exit 1; \
	done; done
	@echo "== vet for darwin"; GOOS=darwin GOARCH=arm64 go vet ./cmd/...
	@# Without tests: they start control planes, which need Unix.
	@echo "== vet for windows"; GOOS=windows GOARCH=arm64 go list -f '{{.Dir}}{{range .GoFiles}} {{.}}{{end}}' ./cmd/... | \
	  GOOS=windows GOARCH=arm64 xargs -L 1 -P 4 sh -c 'cd "$$0" && go vet "$$@"'

.PHONY: lint
lint: ## Run the linters of .golangci.yaml, and check the wording and the workflows
	@go test -tags $(TAG)$(comma)lint -run TestLanguage .
	@go tool -modfile=tools/go.mod actionlint
	@for module in $(MODULES); do echo "== $$module"; (cd $$module && go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yaml ./...) || exit 1; done

.PHONY: e2e
e2e: controlplane ## Run all cases of the tests that make test samples: crashes, real providers, and make compat (make faults is apart)
	E2E=full go test $(TAGS) -timeout 60m -skip '^TestFaults$$' ./test/e2e
	E2E=full go test $(TAGS) -timeout 60m -run 'LosesNoInstance|Neighbours' ./install
	E2E=full go test -run TwoReportersAgree ./install/status
	E2E=full go test -run MatchesAFullUnpack ./extractor/remote
	E2E=full go test -timeout 30m -run 'AcceptsRealProviders|AgreesWithValidation' ./cmd/capi-manifests/internal/apiserver
	E2E=full go test ./test/corpus
	@$(MAKE) --no-print-directory compat

.PHONY: providers
providers: controlplane ## Install every real provider and remove it again, by an upgrade and by an uninstallation (also those in PROVIDERS and FORKS)
	E2E=full go test -count=1 -v $(TAGS) -timeout 60m -run TestProviders_InstalledAndRemoved ./test/e2e

CCO ?=
.PHONY: cco
cco: controlplane ## Run the tests of cluster-capi-operator in its checkout CCO against a release with this installer; needs PROVIDERS
	CCO=$(abspath $(CCO)) $(TEST) -count=1 -v -run '^TestClusterCAPIOperator_' ./test/e2e

.PHONY: faults
faults: controlplane ## Inject one fault per workload, with E2E=full every fault; the report is _output/faults.html
	@result=0; go test -count=1 -timeout 6h -parallel 16 -run '^TestFaults$$' ./test/e2e || result=1; cat _output/faults.md; exit $$result

FIELDS ?= 10000
.PHONY: fields
fields: controlplane ## Upgrade FIELDS (10000) objects while other actors own their fields, and compare with fresh installations
	FIELDS=$(FIELDS) go test -count=1 -v -timeout 3h ./test/fields

SEED ?= 1
HOURS ?= 1
.PHONY: order
order: controlplane ## Run the controllers under schedules from SEED for HOURS (1), and shrink the first failing schedule
	go test -count=1 -v -timeout 0 ./test/order -seed $(SEED) -schedules 0 -duration $(HOURS)h

.PHONY: mutants
mutants: ## Check that the tests find seeded bugs; the results are test/mutants/found.txt
	go run ./hack/mutants

# The tests that fail with the original, for a reason that the list gives.
DIFFERENCES = $(shell sed -n 's/^| `[a-z0-9]* \([A-Za-z_]*\)`.*/\1/p' third_party/boxcutter/original/differences.md | paste -sd'|')

.PHONY: compat
compat: controlplane ## Run the tests of the installer with the limits of the original boxcutter
	cd third_party/boxcutter/conformance && go test -tags boxcutter_compat -timeout 30m -run TestConformance .
	go test -tags $(TAG),boxcutter_compat -timeout 60m -parallel $(PARALLEL) -skip '^($(DIFFERENCES))$$' ./install/... ./test/e2e

.PHONY: original
original: controlplane ## Compare our boxcutter with the original: exported names, conformance, and the tests of the installer (ORIGINAL=<git clone>, ONLY=api)
	@cd third_party/boxcutter && go run ./original $(if $(ORIGINAL),-clone $(abspath $(ORIGINAL))) $(if $(ONLY),-only $(ONLY))

.PHONY: site
site: ## Build the documentation as a site with search in _output/site (Debian package mkdocs)
	@command -v mkdocs >/dev/null || { echo "make site: mkdocs is missing; install it, for example with apt-get install mkdocs" >&2; exit 1; }
	mkdocs build --strict --quiet
	@echo "Open the site with: python3 -m http.server --bind 127.0.0.1 --directory _output/site"

.PHONY: bench
bench: controlplane ## Measure the extractor beside crane and the installer beside kubectl; docs/maintainers/performance.md explains the table
	@go build -o bin/ ./test/bench
	@bin/bench

.PHONY: microbench
microbench: ## Run the Go benchmarks of packages
	go test $(TAGS) -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /test/)

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@git ls-files '*_test.go' | xargs grep -Ho '^func Fuzz[A-Za-z0-9_]*' | sed 's|^|./|; s|/[^/]*:func | |' | while read -r dir target; do \
	  echo "== $$dir $$target"; \
	  (cd $$dir && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x . </dev/null) || exit 1; \
	done

.PHONY: generate
generate: ## Regenerate the generated files
	go generate ./...

.PHONY: verify
verify: generate ## Check that generated files, go.mod files and formatting are up to date
	@for module in $(MODULES) $(PINS); do (cd $$module && go mod tidy) || exit 1; done
	gofmt -w $$(git ls-files '*.go')
	git diff --exit-code

.PHONY: clean
clean: ## Remove the files that make built
	rm -rf bin _output
