# Everything a person does with this repository. `make` alone prints what there is.
#
# Variables: ARGS are passed on to demo, up, bench and prove; PREFIX is where `install` puts the programs, below bin/;
# DATA is where `up` keeps its jobs; REDIS is the Redis that `prove` is run on, one of its own if empty; FUZZTIME is how
# long each fuzz target runs; SEEDS is how many worlds `simulate` makes.

GO       ?= go
ARGS     ?=
PREFIX   ?= $(HOME)/.local
DATA     ?= data
REDIS    ?=
FUZZTIME ?= 20s
SEEDS    ?= 1000

# Left empty where git knows nothing; the programs then say what the go command recorded.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w -X github.com/penstock/penstock/internal/ops.linkedVersion=$(VERSION)

# The race detector needs a C compiler. Without one the tests run all the same, and say so.
RACE := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)

# make lint vets: go vet is one of its linters. Paths are left out, so that what one clone has compiled serves another.
TESTFLAGS := -trimpath -vet=off -shuffle=on -timeout 30m

# In these, one goroutine works at a time, or the tests only use programs that they build without the detector: there is
# no race to find, and the detector would make them ten times slower. And internal/provider: the detector itself crashes
# in some of its runs of ten virtual minutes. What it simulates is called under the detector by internal/cli/sink.
SEQUENTIAL := ./docs ./leaky ./queue ./queue/audit ./internal/strictjson ./queue/invalid ./internal/jobrecord \
	./internal/jsondepth ./queue/machine ./internal/move ./queue/names ./queue/quote ./queue/rules ./queue/ruleset \
	./queue/status ./queue/unit ./queue/queuetest ./internal/config ./internal/prove/law ./internal/replay/... \
	./internal/test/deploytest ./internal/provider ./clients ./clients/thirdparty ./site/simulator/simulate \
	./client/internal/gen ./deploy/grafana ./cmd/ingress ./cmd/drainer ./examples ./deliver/asynqtarget/asynqtask ./deliver/bounce \
	./deliver/secrets ./deliver/setting ./internal/app/asynq ./internal/app/store ./internal/assign ./internal/attention \
	./internal/cause ./internal/client ./internal/departure ./internal/forward ./internal/wire \
	./queue/boltq/internal/pagecheck $(addprefix ./internal/cli/,applycmd chain command login memory operator plot \
	provecmd pushcmd replaycmd show sinkcmd storecmd upcmd)

# Tests of whole programs, and of pages in a browser. Most of what they start has tests of its own under the race
# detector, so make test runs these without it, and make test-long with it.
WHOLE := ./internal/console ./cmd/penstock

# All others run under the race detector, but for libraries that copy pages, or read, write and pack texts: their races
# are their own tests' business, and they reach what is ours through package reflect, which is watched. None may use
# sync.Map: the linker would take its copy of that for all, and the detector see races of everybody else's that are none.
# They start real servers, which share the cores with them. The slowest come first, so that none is left to run alone.
JSON      := github.com/go-json-experiment/json
UNRACED   := go.etcd.io/bbolt github.com/alecthomas/kong go.yaml.in regexp $(JSON)/jsontext $(JSON)/internal \
	text/template html/template compress strconv internal/strconv unicode encoding/base64
RACED      = ./queue/redisq ./internal/app ./deferred ./internal/api ./queue/boltq ./drain ./internal/cli \
	$$($(GO) list ./... | grep -vxF "$$($(GO) list $(SEQUENTIAL) $(WHOLE))")
# Forecasts, and the chapters of the contract in which one goroutine calls the engine. make test runs them on each engine
# without the detector, and the other chapters with it; make test-long runs all with it, but for the forecasts.
FORECASTS := ^TestForecasts$$
CHAPTERS  := ^TestConformance$$|$(FORECASTS)
RACEFLAGS := $(RACE) $(UNRACED:%=-gcflags=%/...=-race=false) -p 3

# make test runs two of these at a time, since each waits for servers half the time. The longest come first, so that
# both cores are busy to the end. All run, even if one fails.
PARTS := test-raced test-sequential test-whole test-clients test-chapters test-bench

# A program with the race detector waits a second before it exits, for races of goroutines that outlive main; here
# main waits for every one. There are hundreds of such programs: each package's tests, and all that tests start.
export GORACE ?= atexit_sleep_ms=10

LINTER  := bin/tools/golangci-lint
LINTER_VERSION := 2.15.0

.PHONY: help build install up demo test $(PARTS) test-long test-chart test-release api release \
	check-release site check-site quick check bench prove hostile fuzz simulate simulate-size lint screenshots fmt tools pin clean
.DEFAULT_GOAL := help

help: ## print this
	@awk 'BEGIN { FS = ":[^#]*## " } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/ingress, bin/drainer, bin/penstock and bin/bench
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/ingress ./cmd/drainer ./cmd/penstock
	$(GO) build -C bench -trimpath $(if $(VERSION),-ldflags '-X main.linkedCommit=$(VERSION)') -o ../bin/bench .

install: build ## put ingress, drainer and penstock into PREFIX/bin
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install bin/ingress bin/drainer bin/penstock '$(DESTDIR)$(PREFIX)/bin'
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo 'add $(PREFIX)/bin to your PATH' ;; esac

# Not all that build compiles: the programs share little with bench, and a reader waits for the first compilation.
demo: ## see it work: 30 s, nothing to install but Go
	CGO_ENABLED=0 GO='$(GO)' scripts/compile.sh -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/penstock
	bin/penstock demo $(ARGS)

up: build ## run ingress and drainer in one process, with the jobs in ./data
	bin/penstock up --data $(DATA) $(ARGS)

# What the tests need besides Go. Sets and exports the variables with which tests find it.
SERVERS = server=$$(scripts/redis.sh) && promtool=$$(scripts/promtool.sh) && \
	chromium=$$(scripts/chromium.sh) && axe=$$(scripts/axe.sh) && \
	{ [ -n '$(RACE)' ] || echo 'no C compiler, so without the race detector'; } && \
	export PENSTOCK_REDIS_SERVER=$$server PENSTOCK_PROMTOOL=$$promtool \
		PENSTOCK_CHROMIUM=$$chromium PENSTOCK_AXE=$$axe TMPDIR=$$(scripts/tempdir.sh)

test: ## test everything, on real Redis servers; installs them, Prometheus, Chromium and axe-core where it may
	@$(SERVERS) && set -x && $(MAKE) --no-print-directory -k -j 2 $(PARTS)

# What runs without the detector is compiled as what is shipped, without C, so that the programs which tests build are
# compiled once. Most cases of ./clients wait for a client's next attempt, so more of them run at a time than there are
# cores.
UNWATCHED = CGO_ENABLED=0 $(GO) test -p 1 $(TESTFLAGS)

test-raced:
	$(GO) test $(RACEFLAGS) $(TESTFLAGS) -skip '$(CHAPTERS)' $(RACED)

test-sequential:
	$(UNWATCHED) $(filter-out ./clients,$(SEQUENTIAL))

test-whole:
	$(UNWATCHED) $(WHOLE)

test-clients:
	$(UNWATCHED) -parallel 6 ./clients

test-chapters:
	$(UNWATCHED) -run '$(CHAPTERS)' ./queue/redisq ./queue/boltq

test-bench:
	cd bench && $(UNWATCHED) ./...

# Packages whose tests import internal/test/long have tests with a short form, for make test, and a long one. All of
# their tests run, and those of the engines, with nearly all chapters of the contract under the race detector.
LONG = $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | \
	sed -n 's|^\([^ ]*\) .*[ [][^ ]*/internal/test/long[] ].*|\1|p'

test-long: ## run the tests that have a long form in that form
	@$(SERVERS) && export PENSTOCK_TEST_LONG=1 && sequential=$$($(GO) list $(SEQUENTIAL)) && set -x && \
	$(GO) test $(RACEFLAGS) $(TESTFLAGS) -skip '$(FORECASTS)' $$($(LONG) | grep -vxF "$$sequential") \
		./queue/boltq && \
	$(UNWATCHED) -run '$(FORECASTS)' ./queue/redisq && \
	$(UNWATCHED) -parallel 6 $$($(LONG) | grep -xF "$$sequential")

# Not shuffled, so that the go command does not run again what no change has touched; after a change of redis-server,
# go clean -testcache has it run all. Four packages at once, for most of them wait.
quick: ## test the packages you changed and their importers, without tests that need more than one Redis
	@server=$$(scripts/redis.sh) || exit 1; \
	packages=$$(scripts/changed.sh | grep -vE '/(cmd|deferred|docs|examples|internal/(app|console|prove|test))(/|$$)') || \
	{ echo 'no such package is changed; make test tests all'; exit 0; }; \
	set -x && PENSTOCK_REDIS_SERVER=$$server TMPDIR=$$(scripts/tempdir.sh) \
	CGO_ENABLED=0 $(GO) test -trimpath -short -p 4 -vet=off -ldflags='-s -w' $$packages

check: build lint test test-chart test-release api ## what a change must pass: build, format, lint, vet, test

test-chart: ## test the Helm chart, on a real Redis
	@server=$$(scripts/redis.sh) && promtool=$$(scripts/promtool.sh) && set -x && \
	PENSTOCK_REDIS_SERVER=$$server PENSTOCK_PROMTOOL=$$promtool \
	$(GO) test -C deploy/helm/test $(TESTFLAGS) ./...

test-release: ## test the release tooling; needs root for namespaces
	release/tools.sh
	$(GO) test -C release -trimpath -timeout 30m ./...

api: ## compare the public Go API with the last release
	$(GO) run -C release ./apidiff

site: ## build the documentation site into site/dist
	npm --prefix site ci --no-audit --no-fund
	npm --prefix site run build

check-site: site ## visit every page of the site with a browser: links, accessibility, sizes, foreign requests
	PENSTOCK_CHROMIUM=$$(scripts/chromium.sh) npm --prefix site run check

release: ## fill dist/ with a release of this commit: VERSION=v0.1.0
	$(GO) run -C release . -version '$(VERSION)' -out ../dist

check-release: ## run the long tests, check the site, build a release twice and compare: VERSION=v0.1.0
	@echo 'check-release: step 1 of 3, the tests in their long form'
	$(MAKE) --no-print-directory test-long
	@echo 'check-release: step 2 of 3, the site'
	$(MAKE) --no-print-directory check-site
	@echo 'check-release: step 3 of 3, a release built twice'
	$(GO) run -C release . -version '$(VERSION)' -check
	@echo 'check-release: passed'

lint: tools ## check format, import direction and style
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt does it): $$unformatted"; exit 1; }
	$(LINTER) config verify
	$(LINTER) run ./...
	for dir in bench release deploy/helm/test; do (cd $$dir && '$(CURDIR)/$(LINTER)' run ./...) || exit 1; done

screenshots: ## take the pictures of the web console in docs/ anew
	PENSTOCK_CHROMIUM=$$(scripts/chromium.sh) $(GO) test -count=1 -run '^TestPictures$$' ./internal/console -args -update

fmt: tools ## format the code
	$(LINTER) fmt ./...
	for dir in bench release deploy/helm/test; do (cd $$dir && '$(CURDIR)/$(LINTER)' fmt ./...) || exit 1; done

bench: build ## measure ours, the peers' and the floor side by side, in an hour or two; prints a table, writes bench.json
	@server=$$(scripts/redis.sh) && set -x && \
	PENSTOCK_REDIS_SERVER=$$server bin/bench $(ARGS)

prove: build ## prove the pacing with drainers of its own, e.g. ARGS='--rate 100/s --faults kill'
ifeq ($(REDIS),)
	scripts/redis.sh run sh -c 'bin/penstock prove --redis "$$PENSTOCK_REDIS" $(ARGS)'
else
	bin/penstock prove --redis '$(REDIS)' $(ARGS)
endif

simulate: ## a store among failing disks, killed processes, lost replies and frozen clients, in SEEDS simulated worlds
	$(GO) test -vet=off -count=1 -v -run '^TestSimulation$$' ./queue/machine -args -seeds $(SEEDS)

simulate-size: ## what 10,000,000 queues and 100,000,000 lanes cost, in 16 GB of memory and an hour; draws docs/size.svg
	$(GO) test -vet=off -count=1 -v -timeout 4h -run '^TestSize$$' ./queue/machine -args \
		-queues 10000000 -lanes 100000000 -picture $(CURDIR)/docs/size.svg

hostile: ## hostile callers, receivers and pages; then a hostile app beside 19 others for 60 s; `make test` does that for 3 s
	@server=$$(scripts/redis.sh) && export PENSTOCK_REDIS_SERVER=$$server TMPDIR=$$(scripts/tempdir.sh) && set -x && \
	$(GO) test -vet=off -count=1 -run Hostile ./internal/app ./internal/api && \
	$(GO) test -vet=off -count=1 -v -run '^TestHostileAppBesideNineteenOthers$$' ./internal/app -args -hostile 60s

fuzz: ## run every fuzz target for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | while read -r target; do \
			echo "$$target in $$(dirname "$$file")"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || exit 1; \
		done || exit 1; \
	done

# Not in go.mod: what a linter needs is no business of those who embed Penstock. It takes a minute or two, once.
tools: ## put golangci-lint into bin/tools, unless it is there
	@[ "$$($(LINTER) version --short 2>/dev/null)" = $(LINTER_VERSION) ] || { set -x; \
	GOBIN='$(CURDIR)/bin/tools' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINTER_VERSION); }

pin: ## pin the images of deploy/ to the digests that their tags have now; needs docker and a network
	scripts/pin.sh

clean: ## remove what was built, tools included
	rm -rf bin dist site/dist site/.pages
