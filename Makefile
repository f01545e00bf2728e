# The two targets that matter: `make test` runs everything, `make check` the linters.
GO ?= go
STATICCHECK = $(CURDIR)/artifacts/bin/staticcheck
NESTED = integration_test otelredislimiter benchmarks examples/loadtest
FUZZTIME ?= 5s
SOAK ?= 2m

.PHONY: test unit integration images browser check fuzz stress soak bench compare up demo-image down

# Everything: unit tests with the race detector, then real servers in
# containers. Says loudly what it could not run; with CI set that is a failure.
test: unit integration

unit:
	$(GO) test -race -shuffle=on ./...
	cd otelredislimiter && $(GO) test -race -shuffle=on ./...
	cd benchmarks && $(GO) test -race -shuffle=on ./migrating # the code of docs/migrating.md
	cd examples/loadtest && $(GO) test -race -shuffle=on ./...

# The page and `make up` are not measured in time, so that they go beside each other.
integration:
	@if docker info >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory images && cd integration_test && \
			$(GO) test -race -shuffle=on -timeout 20m . && \
			$(GO) test -race -shuffle=on -p 2 $$( $(HAS_BROWSER) && echo ./browser) ./compose ./internal/...; \
	elif [ -n "$$CI" ]; then \
		echo 'FAIL: Docker is not available, the tests on real servers cannot run' >&2; exit 1; \
	else \
		echo '************************************************************' >&2; \
		echo '* NOT RUN: the tests on real servers. Docker is not there. *' >&2; \
		echo '************************************************************' >&2; \
	fi

# Server images: what is there, public or built, is used; else the public ones are pulled, and where no registry can be
# reached they are built from Debian's packages, which needs root. The same for a browser, where the machine has none.
PULL = $$(command -v timeout >/dev/null && echo timeout 120) docker pull -q

images: browser
	@for i in redis:7.0 redis:8.0 valkey/valkey:8.1; do \
		docker image inspect $$i >/dev/null 2>&1 || docker image inspect redislimiter-test/$${i#valkey/} >/dev/null 2>&1 || \
			$(PULL) $$i 2>/dev/null || missing="$$missing $${i#valkey/}"; \
	done; [ -z "$$missing" ] || integration_test/images/build.sh $$missing

HAS_BROWSER = ( for b in chromium chromium-browser google-chrome google-chrome-stable \
	'/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do command -v "$$b" >/dev/null && exit; done; \
	docker image inspect redislimiter-test/chromium >/dev/null 2>&1 || docker image inspect chromedp/headless-shell >/dev/null 2>&1 )

browser:
	@$(HAS_BROWSER) || $(PULL) chromedp/headless-shell 2>/dev/null || integration_test/images/build.sh chromium || \
		if [ -n "$$CI" ]; then \
			echo 'FAIL: no browser can be had, the tests of the page cannot run' >&2; exit 1; \
		else \
			echo '************************************************************' >&2; \
			echo '* NOT RUN: the tests of the page. No browser could be had. *' >&2; \
			echo '************************************************************' >&2; \
		fi

# The linters see the code as the tests do, with the race detector: on an empty cache all is compiled once then.
check:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt-clean: $$out" >&2; exit 1; fi
	@GOBIN=$(dir $(STATICCHECK)) $(GO) install honnef.co/go/tools/cmd/staticcheck@v0.8.2
	@for m in . $(NESTED); do \
		echo "vet, staticcheck: $$m" && (cd $$m && $(GO) vet -race ./... && GOFLAGS=-race $(STATICCHECK) ./...) || exit 1; \
	done

# Each fuzz target for a short while. A package's binary is linked once, and of what it is made only our own code counts
# its coverage: for a few seconds of fuzzing that matters, and it is the coverage that should lead.
fuzz:
	@found=$$($(GO) env GOCACHE)/fuzz/$$($(GO) list -m) && dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		$(GO) test -c -gcflags='github.com/redislimiter/go-redislimiter/...=-d=libfuzzer' -o "$$dir/fuzz" $$pkg || exit 1; \
		for target in $$("$$dir/fuzz" -test.list '^Fuzz'); do \
			echo "$$pkg $$target"; \
			(cd $$pkg && "$$dir/fuzz" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzcachedir "$$found/$${pkg#./}") || exit 1; \
		done; \
	done

# Twenty runs of the unit tests, to find what fails now and then.
stress:
	$(GO) test -race -shuffle=on -count=20 -timeout 40m ./...

# Random faults on a real server for a while; an hour before a release.
soak: images
	cd integration_test && $(GO) test -race -timeout 0 -count=1 -v -run '^TestSoak$$' . -soak $(SOAK)

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# This library and its peers side by side; about ten minutes.
compare: images
	cd benchmarks && $(GO) run .

# The demo in containers: Redis, three instances, the edge with the page. PROFILE=cluster uses a Redis Cluster.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
DEMO_IMAGE ?= redislimiter-demo
PORT ?= 8080
# What `make images` has built, where the public image is not there.
REDIS_IMAGE ?= $(shell docker image inspect redis:8.0 >/dev/null 2>&1 || \
	{ docker image inspect redislimiter-test/redis:8.0 >/dev/null 2>&1 && echo redislimiter-test/; })redis:8.0
CLUSTER_URL = redis://node-1:6379?addr=node-2:6379&addr=node-3:6379

up: demo-image
	REDIS_IMAGE='$(REDIS_IMAGE)' DEMO_IMAGE='$(DEMO_IMAGE)' PORT='$(PORT)' COMPOSE_PROFILES='$(PROFILE)' \
		$(if $(filter cluster,$(PROFILE)),DEMO_REDIS='$(CLUSTER_URL)') $(COMPOSE) up -d
	@echo 'page http://127.0.0.1:$(PORT)/'

demo-image:
	@mkdir -p artifacts/image
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '-s -w' -o artifacts/image/demo ./examples/demo
	docker build -q -t '$(DEMO_IMAGE)' -f examples/demo/Dockerfile artifacts/image

down:
	COMPOSE_PROFILES=cluster $(COMPOSE) down -v -t 3 --remove-orphans
