# `make help` lists the targets. Go, git and make are all that they need; only `image`
# needs a program that builds images.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

# Without cgo the programs are static, no C compiler is needed, and the tools share
# their packages in the Go cache with the programs of the dev cluster.
export CGO_ENABLED := 0
# A workspace above the checkout would override the modules' own replaces.
export GOWORK := off

# Every module of the repository; hack/devcluster/kubernetes, hack/helm and hack/tools
# hold no code, only versions.
MODULES := . hack/devcluster hack/devcluster/kubernetes hack/alerts hack/helm hack/tools
# Those that hold code.
CODE := . hack/devcluster hack/alerts

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
APP := github.com/drydock-dev/drydock/pkg/app
# text/template calls methods by names that the linker cannot know, so that it keeps every
# method of every type; the tag has the command line's help written without it. This
# is 30 of 70 megabytes. -s and -w leave out what only debuggers read.
FLAGS := -tags urfave_cli_no_template -ldflags '-s -w -X $(APP).Version=$(VERSION) -X $(APP).Commit=$(COMMIT)'
IMAGE ?= drydock:$(VERSION)

# Where bin/drydock goes; tests want it elsewhere.
BIN ?= bin

# What writes into the tree must not run beside what reads it.
.NOTPARALLEL:
.PHONY: help build $(BIN)/drydock bin/devcluster test verify lint verify-tidy verify-generated vet generate demo walk soak faults bench image

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN)/drydock bin/devcluster ## Build bin/drydock and bin/devcluster

# The go command knows best what has changed, so these are always asked for. Without
# -trimpath, which the image has, they share every compiled package with the tests.
$(BIN)/drydock:
	go build $(FLAGS) -o $@ ./cmd/drydock

bin/devcluster:
	go -C hack/devcluster build -o $(CURDIR)/$@ ./cmd/devcluster

# Tests keep two cores busy. With the programs built once, no package links its own; with
# a collector that runs seldom, the control plane of a dev cluster works a quarter less,
# for half a gibibyte more. The manager itself runs as it does elsewhere.
TESTED = GOGC=400 DRYDOCK_MANAGER=$(CURDIR)/bin/drydock DRYDOCK_DEVCLUSTER_PROGRAM=$(CURDIR)/bin/devcluster

test: build ## Run all tests; those against a control plane boot dev clusters of their own
	@$(TESTED) hack/test.sh $(filter-out .,$(CODE))

verify: vet lint verify-tidy verify-generated ## Check everything that needs no cluster: vet, lint, tidy modules, generated code

vet:
	@for module in $(CODE); do \
		echo "go -C $$module vet ./..."; \
		go -C $$module vet ./... || exit 1; \
	done

lint: ## Run golangci-lint, arrows and bans included
	@linter=$$(go -C hack/tools tool -n golangci-lint) || exit 1; \
	for module in $(CODE); do \
		echo "golangci-lint in $$module"; \
		(cd $$module && "$$linter" run --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done

verify-tidy:
	@for module in $(MODULES); do \
		echo "go -C $$module mod tidy -diff"; \
		go -C $$module mod tidy -diff || { echo "$$module/go.mod is not tidy: run 'go -C $$module mod tidy' and commit the result" >&2; exit 1; }; \
	done

# Into place, not into a temporary folder: what differs is then what to commit.
verify-generated: generate
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { \
		git status --short -- $(GENERATED) >&2; git --no-pager diff --stat -- $(GENERATED) >&2; \
		echo "$(GENERATED) are not what is generated: commit what 'make generate' has just put there" >&2; exit 1; }

# What pkg/codegen writes, what hack/chart makes of the schema of the chart's values, and
# what helm renders from charts/drydock.
GENERATED = pkg/generated charts/drydock/values.yaml charts/drydock/README.md deploy/drydock.yaml

generate: ## Write pkg/generated anew, and deploy/ from the chart
	env -u GOPATH go run ./pkg/codegen
	go run ./hack/chart
	@helm=$$(go -C hack/helm tool -n helm) || exit 1; \
	echo "helm lint charts/drydock"; "$$helm" lint --quiet charts/drydock || exit 1; \
	echo "helm template charts/drydock > deploy/drydock.yaml"; \
	{ echo "# Rendered from charts/drydock by 'make generate'."; "$$helm" template drydock charts/drydock --namespace harvester-system; } > deploy/drydock.yaml

demo: build ## Boot a dev cluster and take a host with VMs into maintenance and back
	go run ./hack/demo -bin $(CURDIR)/bin

walk: ## Follow README.md in a new directory, the demo included
	DRYDOCK_WALK=1 go test -count=1 -v -timeout 45m -run 'Walk$$' ./tests/docs

# How long random maintenances are played with managers being killed. DRYDOCK_SOAK_SEED
# repeats one.
SOAK ?= 1h

soak: build ## Play random maintenances while managers are killed, for SOAK (default 1h)
	$(TESTED) DRYDOCK_SOAK_DURATION=$(SOAK) go test -count=1 -v -timeout 0 -run 'TestSoak$$' ./tests/soak

# More writes than one small maintenance makes; those beyond find nothing to kill at.
WRITES ?= 30

faults: build ## Kill the manager at its n-th write, for every n up to WRITES; try stories in random order for longer
	$(TESTED) DRYDOCK_SOAK_WRITES=$(WRITES) go test -count=1 -timeout 60m -run NthWrite ./tests/faults
	go test -count=1 ./pkg/plan -run Stories -rapid.checks=20000 -rapid.steps=100

bench: build ## Measure a drain against its floor and against kubectl drain, admission and API under load
	$(TESTED) go run ./tests/bench
	$(TESTED) go test -count=1 -run '^$$' -bench Admission -benchtime 1x ./tests/admission
	$(TESTED) DRYDOCK_API_LOAD=1 go test -count=1 -v -run 'TestLoad$$' ./tests/api

# Go compiles for every architecture on any, so the builder only packs. buildah needs
# neither a daemon nor, with these settings, a container for that. One image for each
# architecture: a registry joins them with a manifest.
ARCHITECTURES ?= amd64 arm64

image: ## Build the container images IMAGE-ARCH (default drydock:VERSION) for ARCHITECTURES, and print their sizes
	@builder=$$(command -v buildah || command -v podman || command -v docker) || { \
		echo "make image: needs buildah, podman or docker on PATH" >&2; exit 1; }; \
	set -e; rm -rf bin/image; \
	for arch in $(ARCHITECTURES); do \
		echo "compiling for linux/$$arch"; \
		GOOS=linux GOARCH=$$arch go build -trimpath $(FLAGS) -o bin/image/linux-$$arch/drydock ./cmd/drydock; \
	done; \
	for arch in $(ARCHITECTURES); do \
		BUILDAH_ISOLATION=chroot "$$builder" build --platform linux/$$arch --build-arg TARGETARCH=$$arch -t $(IMAGE)-$$arch -f Dockerfile bin/image; \
	done; \
	for arch in $(ARCHITECTURES); do \
		program=bin/image/linux-$$arch/drydock; \
		test "$$(go env GOHOSTOS)/$$(go env GOHOSTARCH)" != linux/$$arch || $$program --version; \
		echo "$(IMAGE)-$$arch: $$((($$(wc -c < $$program) + 500000) / 1000000)) MB, compressed $$((($$(gzip -c $$program | wc -c) + 500000) / 1000000)) MB"; \
	done
