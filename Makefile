# `make` alone lists the targets.

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
GO ?= go
# What the program calls itself; nothing without git. Only a build asks.
VERSION = $(shell git describe --always --dirty --tags 2>/dev/null)

# What the project needs beside Go and git. Versions are pinned; everything goes to build/.
GOLANGCI_LINT_VERSION := v2.15.0
OAPI_CODEGEN_VERSION := v2.5.1
GITHUB_OPENAPI_VERSION := 23.0.2
VERSITYGW_VERSION := v1.8.0
TOXIPROXY_VERSION := v2.5.0
OCI_CONFORMANCE_VERSION := v0.0.0-20260831232431-97274622c111
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c
WORKERD_VERSION := 1.20261117.1
MC_VERSION := v0.0.0-20250313080218-cf909e1063a9
GOLANGCI_LINT := build/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
OAPI_CODEGEN := build/bin/oapi-codegen-$(OAPI_CODEGEN_VERSION)
VERSITYGW := build/bin/versitygw
MINIO := build/bin/minio
MC := build/bin/mc
WORKERD := build/bin/workerd
TOXIPROXY := build/bin/toxiproxy
NATS_SERVER := build/bin/nats-server
FLASK := build/flask/usr/lib/python3/dist-packages/flask
OCI_CONFORMANCE := build/bin/oci-conformance
NPM_PACKAGES := build/npm/node_modules/.package-lock.json
GITHUB_OPENAPI := build/openapi/.version-$(GITHUB_OPENAPI_VERSION)

# gin without MessagePack, whose tables would be in memory for ever. Tests, linters and generators compile with it, too.
export GOFLAGS := $(filter-out -tags=nomsgpack,$(shell $(GO) env GOFLAGS)) -tags=nomsgpack
# RACE=1 turns the race detector on, but not inside what computes alone and takes a multiple with it, up to 40 times: the pure-Go
# SQLite and compression. Races in our own code are found all the same.
# The programs that tests start have it with LANDFALL_TEST_RACE=1 only.
RACEFLAGS := -race $(foreach alone,modernc.org/... compress/... github.com/klauspost/compress/...,-gcflags=$(alone)=-race=false)
BUILDFLAGS := -ldflags='-s -w' $(if $(RACE),$(RACEFLAGS))
# Linting has what `go test` would vet.
TESTFLAGS := -vet=off $(BUILDFLAGS)
# Each process with the race detector waits a second when it ends, unless it is told not to. The tests start thousands.
export GORACE ?= atexit_sleep_ms=0
# Programs of others are compiled as functions in Go are, so that they have the standard library in common.
INSTALL = CGO_ENABLED=0 GOBIN=$(CURDIR)/build/bin/install $(GO) install -trimpath
# Linters and generators compile what tests compile, as tests do: then it is done once.
ALIKE = GOFLAGS='$(strip $(GOFLAGS) $(if $(RACE),$(RACEFLAGS)))'
PACKAGES ?= ./...
# Packages whose tests take longest are tested first: otherwise one of them is still at work when all others have ended.
LONGEST := ./test/function ./test/push ./test/crash ./sandbox ./test/webhook ./test/history ./test/fault ./test/roles ./store ./server
# The linters collect garbage less often than they would, as long as they have less than 4 GiB.
LINTMEMORY = GOGC=400 GOMEMLIMIT=4GiB
# The parts that can be processes of their own; each has a main.
ROLES := api webhook pipeline gateway trigger router runner registry
# The makers of sites whose output the tests push; their versions are in testdata/sites/NAME/package.json.
SITES := vite vitepress astro sveltekit
# Benchmarks are a module of their own. bench/argo, which links all of Kubernetes, is compiled only when it measures.
BENCH := . ./echo ./fetch ./peer ./report
# Tests wait more than they compute: four of a package at a time, and a package more than there are processors, keep all at work.
GOTEST = build/bin/testservers $(GO) test -json -timeout 75m -p $$(($$(nproc) + 1)) -parallel 4 $(TESTFLAGS)
REPORT = build/bin/testreport -o build/test.json

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z\/]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build the program: build/landfall; build/landfall-init, with which sandboxes begin faster; build/landfall-ROLE for each role
	@mkdir -p build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o build/landfall ./cmd/landfall
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o build/landfall-init ./cmd/landfall-init
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o build/ $(patsubst %,./cmd/landfall-%,$(ROLES))

.PHONY: image
image: build ## write a container image: build/landfall-image.tar (BASE=rootfs.tar puts it on a system with git and bubblewrap)
	@$(GO) run ./tools/image -base '$(BASE)'

.PHONY: demo
demo: ## push a shop, look at it, change it, roll it back (STAY=1 keeps it running)
	@GO='$(GO)' tools/need.sh go git=git curl=curl bwrap=bubblewrap /usr/bin/python3=python3
	@$(MAKE) build
	@STAY='$(STAY)' tools/demo/demo.sh build/landfall testdata/apps/shop

.PHONY: demo/scale
demo/scale: ## the same with each role in processes of its own, on PostgreSQL, S3 and NATS
	@GO='$(GO)' tools/need.sh go git=git curl=curl bwrap=bubblewrap /usr/bin/python3=python3
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || tools/need.sh initdb=postgresql
	@$(MAKE) build $(VERSITYGW) $(NATS_SERVER)
	@SCALE=1 S3SERVER='$(CURDIR)/$(VERSITYGW)' NATS='$(CURDIR)/$(NATS_SERVER)' tools/demo/demo.sh build/landfall testdata/apps/shop

.PHONY: folder
folder: build ## write testdata/folders/COMMIT.tar.gz: a data folder of this commit, which later commits must open
	@tools/need.sh git=git curl=curl bwrap=bubblewrap /usr/bin/python3=python3
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || tools/need.sh initdb=postgresql
	@tools/folder/make.sh build/landfall testdata/folders/$$(git rev-parse --short=7 HEAD).tar.gz

# What tests need beside Go's packages; several are made at a time with -j.
TEST_TOOLS := $(FLASK) $(GITHUB_OPENAPI) $(VERSITYGW) $(TOXIPROXY) $(NATS_SERVER) $(OCI_CONFORMANCE) $(NPM_PACKAGES) build/sites/vite/.installed build/bin/testreport build/bin/testservers
$(TEST_TOOLS): | needs

.PHONY: test
test: needs $(TEST_TOOLS) ## run every test; installs what it needs (PACKAGES=./store/... runs some)
	@$(GOTEST) $(if $(filter ./...,$(PACKAGES)),$(LONGEST)) $(PACKAGES) | $(REPORT)

.PHONY: test/race
test/race: needs $(TEST_TOOLS) ## run every test with the race detector, also in the programs that the tests start; check has them without (PACKAGES=./test/push some)
	@LANDFALL_TEST_RACE=1 $(MAKE) RACE=1 test

.PHONY: test/crash
test/crash: needs $(GITHUB_OPENAPI) $(VERSITYGW) $(TOXIPROXY) build/bin/testreport ## kill the program at every step on each pair of engines, and 25 times at random (LANDFALL_CRASH_ROUNDS=100 for more)
	@for engine in sqlite+folder postgres+folder sqlite+s3 postgres+s3; do \
		echo "$$engine:" && LANDFALL_TEST_ENGINE=$$engine LANDFALL_CRASH_ROUNDS=$${LANDFALL_CRASH_ROUNDS:-25} \
		$(GOTEST) -count=1 -run '^TestCrash' ./test/crash | build/bin/testreport -o build/crash-$$engine.json || exit 1; \
	done

.PHONY: test/faults
test/faults: needs $(GITHUB_OPENAPI) $(VERSITYGW) $(TOXIPROXY) build/bin/testreport ## full disks, damage, paused workers, backups, a bucket and a database that fail: ten rounds, of which the tests make a part of one (LANDFALL_FAULT_ROUNDS=20 for more)
	@LANDFALL_FAULT_ROUNDS=$${LANDFALL_FAULT_ROUNDS:-10} $(GO) test -json -timeout 4h -count=1 -parallel 4 $(TESTFLAGS) -run '^Test(Fault|Damaged|BackupWhileWriting)' ./test/fault ./test/function ./test/roles | \
		build/bin/testreport -o build/faults.json

.PHONY: test/model
test/model: needs build/bin/testreport build/bin/testservers ## 10,000 random histories of an app against a model of versioning, and 666 on PostgreSQL (LANDFALL_MODEL_HISTORIES=1000 for fewer); before them 1,000 pushes beside collections
	@LANDFALL_RACE_ROUNDS=$${LANDFALL_RACE_ROUNDS:-1000} $(GO) test -json -v -timeout 1h -count=1 $(TESTFLAGS) -run '^TestCollectionRace$$' ./upkeep | \
		build/bin/testreport -o build/race.json; ended=$$?; grep -o '[0-9]* pushes, [^"\]*' build/race.json; exit $$ended
	@build/bin/testservers $(GO) test -json -v -timeout 10h -count=1 $(TESTFLAGS) -run '^TestHistories' ./test/history -rapid.checks=$${LANDFALL_MODEL_HISTORIES:-10000} -rapid.nofailfile | \
		build/bin/testreport -o build/model.json; ended=$$?; grep -o '[0-9]* histories, [^"]*' build/model.json; exit $$ended

.PHONY: test/mutants
test/mutants: ## apply each mutation of test/history/mutations to a copy of the work tree, and expect that random histories find it (MUTANTS='weights-above-100 ...' for some)
	@GO='$(GO)' tools/mutants.sh $(MUTANTS)

.PHONY: test/poison
test/poison: needs $(GITHUB_OPENAPI) $(VERSITYGW) build/bin/testreport ## push what no release can be made of, 59 kinds 20 times each: only that push fails, and a neighbour notices nothing (LANDFALL_POISON_ROUNDS=2 for less)
	@LANDFALL_POISON_ROUNDS=$${LANDFALL_POISON_ROUNDS:-20} $(GO) test -json -v -timeout 4h -count=1 $(TESTFLAGS) -run '^TestPoisonPushes$$' ./test/push | \
		build/bin/testreport -o build/poison.json; ended=$$?; grep -o '[0-9]* kinds, [^"\\]*' build/poison.json; exit $$ended

.PHONY: test/hell
test/hell: needs build/bin/testreport ## functions that crash, hang, flood and fork, 1,000 times each: every caller gets its error in time, and nothing is left (LANDFALL_HELL_ROUNDS=100 for less, AT_ONCE=4 for several kinds beside each other)
	@LANDFALL_HELL_ROUNDS=$${LANDFALL_HELL_ROUNDS:-1000} $(GO) test -json -v -timeout 4h -count=1 -parallel $(or $(AT_ONCE),1) $(TESTFLAGS) -run '^Test(Hell|PoisonInputs)$$' ./runtime/runner | \
		build/bin/testreport -o build/hell.json; ended=$$?; grep -o '[0-9]* kinds, [^"]*' build/hell.json; exit $$ended

.PHONY: test/switch
test/switch: needs build/bin/testreport ## 10,000 releases, promotions, rollbacks, expiries and weights of an alias under load, and canaries of a release with 10,000 visitors: none of them notices (LANDFALL_SWITCH_ROUNDS=1 for a tenth)
	@LANDFALL_SWITCH_ROUNDS=$${LANDFALL_SWITCH_ROUNDS:-10} $(GO) test -json -v -timeout 4h -count=1 $(TESTFLAGS) -run '^Test(Switch|Canary)Storm$$' ./test/soak | \
		build/bin/testreport -o build/switch.json; ended=$$?; grep -oE '[0-9]+ (switches|visitors) in [^"]*' build/switch.json; exit $$ended

.PHONY: test/sites
test/sites: needs $(GITHUB_OPENAPI) $(VERSITYGW) $(SITES:%=build/sites/%/.installed) build/bin/testreport ## push sites made by Vite, VitePress, Astro and SvelteKit twice, with all pages changed: no file of the first is missing at the live address
	@LANDFALL_TEST_SITES='$(SITES)' $(GO) test -json -timeout 1h -count=1 $(TESTFLAGS) -run '^TestSites$$' ./test/push | build/bin/testreport -o build/sites.json

.PHONY: test/github
test/github: needs $(GITHUB_OPENAPI) build/bin/testreport build/bin/testservers ## 10,000 deliveries again and in any order, 2,000 histories of a branch told in any order, 500 pushes missed, and every call to GitHub with every fault, 3 times
	@LANDFALL_DELIVERIES=10000 LANDFALL_ORDER_HISTORIES=2000 LANDFALL_MISSED_PUSHES=500 $(GOTEST) -count=1 \
		-run '^Test(DeliveriesAgainAndAgain|OrderAtRandom|MissedPushesAreRecovered)$$' ./accept ./test/webhook | build/bin/testreport -o build/github.json
	@$(GOTEST) -count=3 -run 'Fault' ./github ./test/webhook | build/bin/testreport -o build/github-faults.json

.PHONY: soak
soak: needs $(GITHUB_OPENAPI) $(VERSITYGW) $(TOXIPROXY) build/bin/testreport ## 20,000 pushes to 50 apps, about an hour: what the server takes of the machine stays flat (LANDFALL_SOAK_PUSHES=5000 for fewer)
	@LANDFALL_SOAK_PUSHES=$${LANDFALL_SOAK_PUSHES:-20000} LANDFALL_SOAK_FILE='$(CURDIR)/build/soak.txt' $(GO) test -json -timeout 4h -count=1 $(TESTFLAGS) -run '^TestSoak$$' ./test/soak | \
		build/bin/testreport -o build/soak.json; ended=$$?; cat build/soak.txt && exit $$ended

.PHONY: bench
bench: $(MINIO) $(MC) $(WORKERD) ## measure beside nginx, Caddy, gin, git, rclone, MinIO's mc, workerd, of-watchdog (if on PATH) and Argo CD's engine: build/bench/report.md (ROUNDS=5; ONLY=P5 measures some)
	@tools/need.sh git=git rclone=rclone time=time nginx=nginx-light caddy=caddy wrk=wrk taskset=util-linux
	@rm -f build/bench.json
	cd bench && for package in . ./argo; do $(GO) test -run '^$$' -bench '$(or $(ONLY),.)' -benchtime $(or $(ROUNDS),5)x -timeout 2h $$package -out $(CURDIR)/build/bench.json || exit 1; done
	cd bench && $(GO) run ./report -in $(CURDIR)/build/bench.json -out $(CURDIR)/build/bench

.PHONY: check
check: ## all that CI checks: format, lint, generated files, tests with the race detector, a tenth of test/hell, conformance
	@tools/need.sh 'gcc=gcc libc6-dev'
	@$(MAKE) -j4 RACE=1 compiled $(GOLANGCI_LINT) $(TEST_TOOLS)
	@$(MAKE) -j2 RACE=1 PACKAGES=./... static test
	@LANDFALL_HELL_ROUNDS=100 $(MAKE) test/hell AT_ONCE=4
	cd bench && GOFLAGS='$(strip $(GOFLAGS) $(RACEFLAGS))' $(GO) test -vet=off $(BENCH)
	@if [ -e docs/conformance.md ]; then $(GO) run ./tools/conformance; fi

# Most of what follows waits for others, or for one compilation: it is done side by side.
.PHONY: compiled
compiled:
	@$(ALIKE) $(GO) list -export -deps -test ./... >/dev/null
	@CGO_ENABLED=0 $(GO) list -trimpath -export -deps ./cmd/... >/dev/null

.PHONY: static
static: format
	@$(MAKE) lint
	@$(MAKE) generated

.PHONY: format
format: ## fail when a file is not formatted
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted; type: gofmt -w" $$files; exit 1; fi

.PHONY: lint
lint: $(GOLANGCI_LINT) ## look for mistakes with every linter of .golangci.yml (PACKAGES=./store/... in some)
	$(ALIKE) $(LINTMEMORY) $(GOLANGCI_LINT) run $(PACKAGES)
	@if [ '$(PACKAGES)' = ./... ]; then cd bench && $(ALIKE) $(LINTMEMORY) $(CURDIR)/$(GOLANGCI_LINT) run $(BENCH); fi

.PHONY: generate
generate: $(OAPI_CODEGEN) ## write the generated files again
	@ln -sf $(notdir $(OAPI_CODEGEN)) build/bin/oapi-codegen
	$(ALIKE) $(GO) generate ./...

# Generating must leave the work tree as it is, whatever its state.
.PHONY: generated
generated:
	@state() { git status --porcelain --untracked-files=all; git diff HEAD; git ls-files --others --exclude-standard | xargs -r cksum; }; \
		before=$$(state | cksum) && $(MAKE) generate && after=$$(state | cksum) && \
		if [ "$$before" != "$$after" ]; then echo "generated files were old: see git diff, and commit them"; exit 1; fi

# --- what the targets stand on

.PHONY: needs
needs:
	@tools/need.sh git=git bwrap=bubblewrap chromium=chromium skopeo=skopeo /usr/bin/python3=python3 /usr/bin/pip3=python3-pip node=nodejs npm=npm
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || tools/need.sh initdb=postgresql
	@ls -d /usr/lib/python3/dist-packages/fastapi >/dev/null 2>&1 || tools/need.sh fastapi=python3-fastapi

build/openapi/api.github.com.json: $(GITHUB_OPENAPI) ;

.PHONY: build/bin/testreport build/bin/testservers
build/bin/testreport build/bin/testservers:
	@$(ALIKE) $(GO) build -o $@ ./tools/$(@F)

$(GOLANGCI_LINT):
	@echo "installing golangci-lint $(GOLANGCI_LINT_VERSION), about a minute"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv build/bin/install/golangci-lint $@

# The S3 server of the tests. It is run, never linked.
$(VERSITYGW):
	@echo "installing versitygw $(VERSITYGW_VERSION), an S3 server, about a minute"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	@mv build/bin/install/versitygw $@

# The proxy that spoils the line to a server in tests. It is run, never linked. No newer version can be installed by its module.
$(TOXIPROXY):
	@echo "installing toxiproxy $(TOXIPROXY_VERSION)"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/Shopify/toxiproxy/v2/cmd/server@$(TOXIPROXY_VERSION)
	@mv build/bin/install/server $@

# The NATS server of the tests, of the version that is linked, and compiled as that is.
$(NATS_SERVER): go.mod
	@mkdir -p $(@D)
	@$(GO) build $(BUILDFLAGS) -o $@ github.com/nats-io/nats-server/v2

# What the registry of images is tested with (Apache-2.0). It is run, never linked.
$(OCI_CONFORMANCE):
	@echo "installing the conformance suite of the OCI distribution specification"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/opencontainers/distribution-spec/conformance@$(OCI_CONFORMANCE_VERSION)
	@mv build/bin/install/conformance $@

# Clients and payloads of others, from npm (Apache-2.0 and MIT): CloudEvents' SDK for Node.js, and GitHub's example payloads.
build/npm: $(NPM_PACKAGES) ;

$(NPM_PACKAGES): tools/npm/package.json tools/npm/package-lock.json
	@tools/need.sh npm=npm
	@echo "fetching the npm packages that tests use"
	@mkdir -p build/npm
	@cp $^ build/npm/
	@cd build/npm && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

# The generator of the client by which the tests use the REST API (Apache-2.0).
$(OAPI_CODEGEN):
	@echo "installing oapi-codegen $(OAPI_CODEGEN_VERSION)"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$(OAPI_CODEGEN_VERSION)
	@mv build/bin/install/oapi-codegen $@

# The S3 server and its client of the benchmarks (AGPL-3.0). They are run, never linked.
$(MINIO) $(MC):
	@echo "installing $(@F), which takes minutes"
	@mkdir -p build/bin/install
	@$(INSTALL) github.com/minio/$(@F)@$(if $(filter $(MINIO),$@),$(MINIO_VERSION),$(MC_VERSION))
	@mv build/bin/install/$(@F) $@

# The runtime of functions of the benchmarks (Apache-2.0). It is run, never linked.
$(WORKERD):
	@tools/need.sh npm=npm
	@echo "fetching workerd $(WORKERD_VERSION)"
	@mkdir -p build/bin/install
	@cd build/bin/install && package=$$(npm pack --silent @cloudflare/workerd-linux-$$(uname -m | sed 's/x86_64/64/; s/aarch64/arm64/')@$(WORKERD_VERSION)) && \
		tar -xzf $$package --strip-components=2 package/bin/workerd && rm $$package
	@mv build/bin/install/workerd $@

# Flask itself, beside which our stand-in is tested. It is unpacked, not installed: functions of other tests must not find it.
$(FLASK):
	@echo "fetching Flask from Debian's packages"
	@rm -rf build/flask && mkdir -p build/flask/packages
	@cd build/flask/packages && packages="python3-flask python3-werkzeug python3-jinja2 python3-markupsafe python3-itsdangerous python3-click" && \
		{ apt-get download $$packages || { apt-get update && apt-get download $$packages; }; } >download.log 2>&1 || { cat download.log >&2; exit 1; }
	@for package in build/flask/packages/*.deb; do dpkg-deb -x $$package build/flask || exit 1; done
	@rm -r build/flask/packages

# A maker of sites, from the npm registry. Its sites are in testdata/sites.
build/sites/%/.installed: testdata/sites/%/package.json
	@tools/need.sh npm=npm
	@echo "fetching what makes the sites of testdata/sites/$*"
	@rm -rf $(@D) && mkdir -p $(@D) && cp $< $(@D)
	@cd $(@D) && npm install --loglevel error --no-audit --no-fund --no-package-lock --ignore-scripts >/dev/null
	@touch $@

# GitHub's own description of its API, against which the tests check every request to it: build/openapi/api.github.com.json
$(GITHUB_OPENAPI):
	@tools/need.sh npm=npm
	@echo "fetching GitHub's description of its API, version $(GITHUB_OPENAPI_VERSION)"
	@mkdir -p $(@D)
	@cd $(@D) && npm pack --silent @octokit/openapi@$(GITHUB_OPENAPI_VERSION) >/dev/null && \
		tar -xzf octokit-openapi-$(GITHUB_OPENAPI_VERSION).tgz --strip-components=2 package/generated/api.github.com.json && \
		rm octokit-openapi-$(GITHUB_OPENAPI_VERSION).tgz
	@touch $@
