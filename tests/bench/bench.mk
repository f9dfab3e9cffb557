# Measurements. README.md in this folder says what they mean.
#
# Targets that measure
#   bench            ratios to plain PostgreSQL; BENCH_QUICK=1 for small sizes
#   bench-NAME       one scenario: tests/bench/README.md. bench-plans compares versions: POSTGRES
#   bench-rules      rules with many rows
#   bench-peers      comparison with other job runners
#   bench-wake       time from a commit to the start of its job
#   bench-runners    a burst, with a fixed and a changing number of runners
#   bench-web        pages for operators under load

BENCH_PROGRAMS := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/*.c))
BENCH_SCENARIOS := $(filter-out __init__,$(basename $(notdir $(wildcard tests/bench/scenarios/*.py))))
.PHONY: bench bench-parts bench-rules $(BENCH_SCENARIOS:%=bench-%)
bench $(BENCH_SCENARIOS:%=bench-%): deps-check
	+@$(MAKE_AGAIN) bench-parts $(if $(filter bench-plans,$@),build/postgres/installed)
	$(if $(filter bench-plans,$@),@$(PYTHON) tests/bench/compare_plans.py $(foreach v,$(POSTGRES),$(call server_folder,$v)))
	@BENCH_QUICK=$(BENCH_QUICK) $(PYTHON) tests/bench/bench.py $(patsubst bench-%,%,$(filter-out bench,$@)) \
		$(BENCH_ARGS)
	@if [ $@ = bench ]; then build/tests/bench/coordinator_ns; fi
bench-rules: deps-check
	+@$(MAKE_AGAIN) bench-parts $(B)/tests/plugins/archive.so
	@$(PYTHON) tests/bench/rules.py
.PHONY: bench-web
bench-web: deps-check
	+@$(MAKE_AGAIN) all
	@BENCH_QUICK=$(BENCH_QUICK) $(PYTHON) tests/bench/web.py $(BENCH_ARGS)
.PHONY: bench-wake bench-runners
bench-wake bench-runners: bench-%: deps-check
	+@$(MAKE_AGAIN) tests bench-parts
	@$(PYTHON) tests/bench/$*.py
bench-parts: all $(BENCH_PROGRAMS) $(B)/tests/plugins/stamp.so

# Node looks for modules next to the script that names them, so the scripts run where npm puts the
# packages. PEERS="--only held --rounds 1" passes options on. NODE names another node.
NODE ?= $(or $(shell command -v node),/usr/bin/node)
export NODE
PEERS_SRC := $(wildcard tests/bench/peers/*.mjs)
.PHONY: bench-peers
bench-peers: deps-check
	+@$(MAKE_AGAIN) bench-parts build/bench/peers/installed
	@cp $(PEERS_SRC) build/bench/peers
	@$(PYTHON) tests/bench/peers/peers.py $(PEERS)
build/bench/peers/installed: $(addprefix tests/bench/peers/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@
