# The two targets that matter: `make test` runs everything, `make check` the linters.
GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
NESTED = integration_test otelredislimiter benchmarks examples/loadtest
FUZZTIME ?= 5s
SOAK ?= 2m

.PHONY: test unit integration images check fuzz stress soak bench compare up down

# Everything: unit tests with the race detector, then real servers in
# containers. Says loudly what it could not run; with CI set that is a failure.
test: unit integration

unit:
	$(GO) test -race -shuffle=on ./...
	cd otelredislimiter && $(GO) test -race -shuffle=on ./...
	cd benchmarks && $(GO) test -race -shuffle=on ./migrating # the code of docs/migrating.md
	cd examples/loadtest && $(GO) test -race -shuffle=on ./...

integration:
	@if docker info >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory images && cd integration_test && $(GO) test -race -shuffle=on -timeout 15m ./...; \
	elif [ -n "$$CI" ]; then \
		echo 'FAIL: Docker is not available, the tests on real servers cannot run' >&2; exit 1; \
	else \
		echo '************************************************************' >&2; \
		echo '* NOT RUN: the tests on real servers. Docker is not there. *' >&2; \
		echo '************************************************************' >&2; \
	fi

# Server images. Where a registry can be reached the public ones are used;
# elsewhere they are built from Debian's packages.
images:
	@docker image inspect redis:7.0 redis:8.0 valkey/valkey:8.1 >/dev/null 2>&1 || integration_test/images/build.sh

check:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt-clean: $$out" >&2; exit 1; fi
	$(GO) vet ./...
	$(STATICCHECK) ./...
	@for m in $(NESTED); do (cd $$m && $(GO) vet ./... && $(STATICCHECK) ./...) || exit 1; done

# Each fuzz target for a short while.
fuzz:
	@$(GO) list ./... | while read -r pkg; do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
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

# This library and its peers side by side; about a quarter of an hour.
compare: images
	cd benchmarks && $(GO) run .

# A Redis for trying things by hand.
up:
	docker compose up -d --wait || docker-compose up -d

down:
	docker compose down || docker-compose down
