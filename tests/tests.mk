# Tests, demo and the private server. A unit test is one file tests/lib/NAME_test.c, a bad plugin
# one file tests/plugins/NAME.c.
#
# Targets that run tests
#   check            tests that are not slow; WHOLE=1 adds slow ones and sanitizers
#   check-quick      the same without the builds for the sanitizers
#   check-unit       unit tests that need no server
#   check-san        all tests under AddressSanitizer and UBSan
#   check-settings   tests with ICU, wal_level minimal and serializable, and behind PgBouncer
#   check-postgres   tests and ledger against PostgreSQL 15 to 18: POSTGRES="16 18"
#   check-bare       demo, build and tests in bare systems of Debian, as root and as a user.
#                    SUITES="bookworm trixie" selects them. BARE_KEEP=1 keeps them in build/bare
#   lint             static analysis, man pages, prose, mutants that apply
#   check-lint       the same
#   format           format C with clang-format and Python with black
#   check-faults     long fault tests with a printed seed
#   check-web        pages and site in a real browser
#   check-metrics    metrics and alerts with a real Prometheus, spans with a receiver of OTLP
#   check-ha         failover with pg_auto_failover
#   check-scale      several servers under kills
#   check-upgrade    upgrade from the last release under load and kills, and go back
#   check-container  build and run the image of cron/container; validate its files
#   check-schedules  all clock changes of 30 years; croniter and systemd compared
#   check-advise     advice followed in scaled time, for 20 workloads
#   ledger           kill everything and count the jobs: LEDGER_JOBS, _KILLS, _LINES, _ONLY
#   growth           weeks of use in minutes: does anything grow? GROWTH_STARTS
#   mutants          break each guard; a named test must notice
#   fuzz             feed readers of requests with random input, FUZZ_S seconds
#   demo             send mail through a real cron and SMTP server; WEB=1 adds pages
#   demo-web         show the operators' pages with a week of history
#   screenshots      take the pictures of README from demo-web
#   pg               start a private server and print how to reach it
#   pg-stop          stop it

UNIT_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/lib/*_test.c))
TEST_PLUGINS := $(patsubst tests/plugins/%.c,$(B)/tests/plugins/%.so,$(wildcard tests/plugins/*.c))
PLUGIN_LIBS_unruly = -ljansson
PLUGIN_LIBS_forger = -ljansson -lpthread
PLUGIN_LIBS_archive = -lpq -ljansson
PLUGIN_LIBS_neighbour = -lpq
# Linked like a plugin outside this tree, which has -ldeferred.
PLUGIN_LIBS_running = $(B)/lib/libdeferred.a $(PKG_LIBS) -ldl -lpthread
$(B)/tests/plugins/running.so: $(B)/lib/libdeferred.a
PLUGIN_LIBS_borrowed = -Wl,--no-as-needed,-rpath,$(CURDIR)/$(B)/plugins -L$(B)/plugins -l:sample.so
$(B)/tests/plugins/borrowed.so: $(B)/plugins/sample.so
# PostgreSQL preloads the first one too, so the flags of the build do not apply.
PRELOADED := $(addprefix $(B)/tests/harness/,clock_shift.so kill_at.so)
TEST_HELPERS := $(PRELOADED) $(patsubst %.c,$(B)/%,\
	$(filter-out %/clock_shift.c %/kill_at.c %/leak_roots.c,$(wildcard tests/harness/*.c)))
MODELS := $(patsubst %.c,$(B)/%,$(wildcard tests/model/*.c))

$(B)/tests/plugins/%.so: tests/plugins/%.c $(B)/flags
	@mkdir -p $(@D) $(B)/obj/tests/plugins
	$(call say,CC)$(COMPILE) -MF $(B)/obj/tests/plugins/$*.d -shared $(OUR_LDFLAGS) $(LDFLAGS) -o $@ $< \
		$(PLUGIN_LIBS_$*)
# A model contains nothing of the library, and no run-time checks of the compiler, which would slow
# it down.
$(MODELS): $(B)/tests/model/%: tests/model/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) $(LDFLAGS) -o $@ $<
$(PRELOADED): $(B)/%.so: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC $(WARN) -shared -o $@ $< -ldl
# These use only what is public, and are linked with that.
TESTS_OUTSIDE := $(addprefix $(B)/tests/,lib/client_test harness/mail_call harness/spool_call harness/oom_call demo/demo)
$(TESTS_OUTSIDE): TEST_ARCHIVE := $(B)/lib/libdeferred.a
$(TESTS_OUTSIDE): $(B)/lib/libdeferred.a
TEST_ARCHIVE := $(B)/obj/internal.a
$(B)/tests/%: tests/%.c $(B)/obj/internal.a $(B)/flags
	@mkdir -p $(@D) $(dir $(B)/obj/tests/$*)
	$(call say,CC)$(COMPILE) -MF $(B)/obj/tests/$*.d $(OUR_LDFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(TEST_ARCHIVE) \
		$(PKG_LIBS) $(if $(findstring tests/lib/,$<),-lcmocka) \
		$(CRYPTO_LIBS) -ldl -lpthread

# Linked with the one file of a program that it tests.
$(B)/tests/lib/program_message_test: $(B)/obj/bin/deferred_runner/program_message.o
$(B)/tests/lib/program_message_test: TEST_ARCHIVE = -Ibin/deferred_runner $(filter %.o,$^) $(B)/obj/internal.a

TESTS_CHECK_DEFERRED := $(B)/tests/lib/pidfile_test $(B)/tests/lib/lineage_test
$(TESTS_CHECK_DEFERRED): $(B)/tests/lib/%_test: $(B)/obj/bin/check_deferred/%.o
$(TESTS_CHECK_DEFERRED): TEST_ARCHIVE = -Ibin/check_deferred $(filter %.o,$^) $(B)/obj/internal.a

TESTS_PLUGIN_HTTP := $(B)/tests/lib/public_address_test $(B)/tests/lib/webhook_test
$(TESTS_PLUGIN_HTTP): $(B)/tests/lib/%_test: $(B)/obj/lib/plugins/http/%.o
$(TESTS_PLUGIN_HTTP): TEST_ARCHIVE = $(filter %.o,$^) $(B)/obj/internal.a

# The tests of deferred_http are linked with all of it except main.c.
$(B)/tests/lib/http_%: tests/lib/http_%.c $(filter-out %/main.o,$(HTTP_OBJ)) $(B)/obj/http.a $(B)/obj/internal.a \
		$(B)/flags
	@mkdir -p $(@D) $(B)/obj/tests/lib
	$(call say,CC)$(COMPILE) -Ibin/deferred_http -MF $(B)/obj/tests/lib/http_$*.d $(OUR_LDFLAGS) $(LDFLAGS) -o $@ \
		$(filter %.c %.o %.a,$^) $(PKG_LIBS) $(HTTP_LIBS) -lcmocka -ldl -lpthread

# Fuzz targets contain what reads a request, a config file or params of the function http, and needs
# neither server nor database.
FUZZ_TARGETS := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_LIBS := $(shell pkg-config --libs expat libcrypto jansson libcurl 2>/dev/null)
FUZZ_OUTBOUND := outbound outbound_params outbound_secrets public_address webhook
MESSAGE_OBJ := $(B)/obj/bin/deferred_runner/program_message.o
$(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/driver.c $(HTTP_PURE_OBJ) $(MESSAGE_OBJ) \
		$(FUZZ_OUTBOUND:%=$(B)/obj/lib/plugins/http/%.o) $(B)/obj/http.a \
		$(B)/obj/internal.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -MF /dev/null -Ibin/deferred_http -Ibin/deferred_runner -Itests/fuzz $(OUR_LDFLAGS) $(LDFLAGS) -o $@ \
		$(filter %.c %.o %.a,$^) $(FUZZ_LIBS)

.PHONY: tests
tests: test-parts $(FUZZ_TARGETS) $(UNIT_TESTS)
# All that the tests in Python need.
.PHONY: test-parts
test-parts: all $(TEST_PLUGINS) $(TEST_HELPERS) $(MODELS) $(B)/tests/demo/demo

SAN := SANITIZE=address,undefined
TSAN := SANITIZE=thread
THREADS_TESTS := build/tsan/tests/lib/coordinator_test
.PHONY: check check-quick check-san check-unit check-faults check-metrics check-advise check-schedules check-lint lint
check: deps-check
	+@$(MAKE_AGAIN) tests
	+@$(MAKE_AGAIN) $(SAN) tests
	+@$(MAKE_AGAIN) $(TSAN) $(THREADS_TESTS)
	@$(PYTHON) tests/harness/check.py --threads build/tsan \
		$(if $(WHOLE),--shortened build/san,--quick --unit build/san) build -- $(TESTS)
check-quick: deps-check
	+@$(MAKE_AGAIN) tests
	@$(PYTHON) tests/harness/check.py --quick build -- $(TESTS)
# A test that needs a server reads the variable that names it.
UNIT_SERVERLESS := $(patsubst %.c,$(B)/%,$(shell grep -L DEFERRED_TEST_DB tests/lib/*_test.c))
check-unit: all $(UNIT_SERVERLESS) $(TEST_PLUGINS)
	@prove --merge $(UNIT_SERVERLESS)
check-san: deps-check
	+@$(MAKE_AGAIN) $(SAN) tests
	@$(PYTHON) tests/harness/check.py build/san -- $(TESTS)
check-faults: deps-check
	+@$(MAKE_AGAIN) tests
	@$(PYTHON) tests/harness/check.py --faults $(if $(SEED),--seed $(SEED)) build -- $(TESTS)
LEDGER_JOBS ?= 6000
LEDGER_KILLS ?= 60
.PHONY: ledger growth
ledger: deps-check
	+@$(MAKE_AGAIN) test-parts
	@$(PYTHON) tests/faults/ledger.py $(if $(SEED),--seed $(SEED)) --jobs $(LEDGER_JOBS) --kills $(LEDGER_KILLS) \
		$(if $(LEDGER_LINES),--lines $(LEDGER_LINES)) \
		$(if $(LEDGER_ONLY),--only "$(LEDGER_ONLY)",--table tests/faults/LEDGER.md)
growth: deps-check
	+@$(MAKE_AGAIN) test-parts
	@$(PYTHON) tests/faults/growth.py $(if $(SEED),--seed $(SEED)) $(if $(GROWTH_STARTS),--starts $(GROWTH_STARTS))
# The major version of the newest server, which the tests use too.
SERVER = $(shell basename -a /usr/lib/postgresql/* | sort -n | tail -n 1)
.PHONY: check-ha check-scale check-upgrade
check-ha: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) pg-auto-failover-cli postgresql-$(SERVER)-auto-failover pgbouncer openssl
	+@$(MAKE_AGAIN) test-parts
	@DEFERRED_HA=1 PYTHONPATH=tests/ha:tests/harness $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/ha $(TESTS)
check-scale: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) postgresql-$(SERVER)-plproxy
	+@$(MAKE_AGAIN) test-parts
	@DEFERRED_SCALE=1 $(if $(SEED),SEED=$(SEED)) PYTHONPATH=tests/faults:tests/harness \
		$(PYTHON) -m pytest -q -s -p no:cacheprovider tests/scale $(TESTS)
	+@$(MAKE) --no-print-directory bench-shards
check-upgrade: deps-check
	@$(PYTHON) tests/upgrade/releases.py build
	+@$(MAKE_AGAIN) test-parts
	@DEFERRED_UPGRADE=1 $(if $(SEED),DEFERRED_TEST_SEED=$(SEED)) $(PYTHON) -m pytest -q -s -p no:cacheprovider \
		tests/upgrade $(TESTS)
check-metrics: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) prometheus
	+@$(MAKE_AGAIN) tests
	@$(PYTHON) -m pytest -q $(addprefix tests/bin/,test_figures.py test_metrics.py spans_receiver.py)
# SEED is the first of 20 seeds. The advice was written with the seeds from 0 on, so other numbers
# try new workloads.
check-advise: deps-check
	+@$(MAKE_AGAIN) test-parts
	@$(PYTHON) tests/harness/check_advise.py $(if $(SEED),--seed $(SEED))
check-schedules: deps-schedules
	+@$(MAKE_AGAIN) all
	@$(PYTHON) tests/schedules/check_schedules.py $(if $(SEED),--seed $(SEED))
# MUTANTS="pidfile_* copy_end" selects mutants. JOBS is the number of mutants at a time.
.PHONY: mutants
mutants: deps-check
	+@$(MAKE_AGAIN) tests
	@$(PYTHON) tests/mutants/mutants.py $(if $(JOBS),--jobs $(JOBS)) $(MUTANTS)
check-lint: deps-lint
	+@$(MAKE_AGAIN) lint
LINT_C := $(wildcard lib/*/*.c lib/*/*/*.c bin/*/*.c bin/*/*/*.c tests/*/*.c)
# The plugin sample crashes on purpose. gcc -fanalyzer is not used: it reports lists as leaks.
lint: all
	@for tool in gcc clang cppcheck mandoc; do command -v $$tool > /dev/null || \
		{ printf 'make lint: %s: not found\nhint: make deps-lint\n' $$tool >&2; exit 1; }; done
	$(PYTHON) tests/harness/floors.py
	$(PYTHON) tests/mutants/mutants.py --dry-run
	$(PYTHON) tests/docs/prose.py
	$(PYTHON) -m pytest -q $(addprefix tests/docs/test_,docs.py help.py reference.py sql_page.py)
	@for cc in "gcc -c -o /dev/null" "clang -fsyntax-only"; do \
		for file in $(LINT_C); do \
			$$cc -Werror $(OUR_CFLAGS) -O2 -Ibin/check_deferred -Ibin/deferred -Ibin/deferred_http \
				-Ibin/deferred_runner -Ibin/deferred_web -Itests/fuzz \
				-DASSETS_FOLDER='"$(B)/gen/web/"' $$file || exit; \
		done; \
	done
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --std=c11 \
		-D_GNU_SOURCE --suppress=missingIncludeSystem \
		--suppress=nullPointer:lib/plugins/sample.c --suppress=zerodiv:lib/plugins/sample.c \
		--suppress=invalidFunctionArgBool:lib/port/pg_args.c --suppress=arrayIndexThenCheck \
		-Ilib/include -Ilib -Ibin/deferred -Ibin/deferred_http -Ibin/deferred_runner -Ibin/deferred_web \
		-I$(B)/gen lib bin
	mandoc -Tlint -Wwarning $(MAN_PAGES)

# POSTGRES="16 18" selects versions. One that is not the distribution's comes from npm, and its
# clients are the host's.
POSTGRES ?= $(sort $(SERVER) 16 17 18)
server_folder = $(if $(filter $(SERVER),$1),-,build/postgres/node_modules/postgres-$1/native)
.PHONY: check-postgres
check-postgres: deps-check
	+@$(MAKE_AGAIN) test-parts build/postgres/installed
	+@$(MAKE) --no-print-directory -k -j1 $(POSTGRES:%=check-postgres-%)
$(POSTGRES:%=check-postgres-%): check-postgres-%:
	@echo "PostgreSQL $*"
	@$(PYTHON) tests/harness/check.py --server $(call server_folder,$*) build -- $(or $(TESTS),tests/sql tests/bin tests/faults)
ifndef TESTS
	@$(PYTHON) tests/faults/ledger.py --server $(call server_folder,$*) $(if $(SEED),--seed $(SEED)) \
		--jobs $(LEDGER_JOBS) --kills $(LEDGER_KILLS)
endif
# A serializable session may not update a row that another one has changed meanwhile, and its
# maintenance sees no end of transactions. Notifications do not reach services behind a pooler.
SETTINGS_TESTS := $(addprefix tests/bin/test_,flow.py schedule.py queue.py)
SETTINGS_NOT := $(addprefix --deselect=tests/sql/test_, \
	lease.py::test_what_was_given_back_while_its_worker_was_taken_for_dead_is_not_taken_from_who_has_it_now \
	defer.py::test_the_short_way_is_shut_while_somebody_or_something_is_limited)
POOLER_NOT := --deselect=tests/bin/test_schedule.py::test_services_wake_for_a_tick_and_each_becomes_one_job
.PHONY: check-settings
check-settings: deps-check
	+@$(MAKE_AGAIN) test-parts
	@DEFERRED_TEST_VARIANT=settings $(PYTHON) tests/harness/check.py build -- \
		$(or $(TESTS),tests/sql $(SETTINGS_TESTS)) $(SETTINGS_NOT)
	@DEFERRED_TEST_VARIANT=pooler $(PYTHON) tests/harness/check.py build -- $(or $(TESTS),$(SETTINGS_TESTS)) $(POOLER_NOT)
build/postgres/installed: $(addprefix tests/postgres/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@

SUITES ?= bookworm trixie
.PHONY: check-bare
check-bare:
	@tests/harness/deps.sh git mmdebstrap
	@$(PYTHON) -B tests/harness/bare.py $(SUITES)

# The image is built of packages of Debian alone, in a store below build/container, which stays.
.PHONY: check-container
check-container: deps-check
	@tests/harness/deps.sh podman crun mmdebstrap iproute2 openssl $(if $(shell command -v npm),,nodejs npm)
	+@$(MAKE_AGAIN) test-parts build/container/installed
	@cp tests/container/schemas.mjs build/container
	@$(PYTHON) -m pytest -v -o faulthandler_timeout=0 --durations=0 tests/container/container.py
build/container/installed: $(addprefix tests/container/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --loglevel error && touch $@

# The browser is large, so check does not install it.
.PHONY: check-web
check-web: deps-check
	@tests/harness/deps.sh chromium fonts-dejavu-core
	+@$(MAKE_AGAIN) test-parts build/browser/installed
	@DEFERRED_BROWSER=1 $(PYTHON) -m pytest -q tests/web tests/docs/test_site.py
build/browser/installed: $(addprefix tests/web/browser/,package.json package-lock.json)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@

.PHONY: format
format:
	@tests/harness/deps.sh clang-format black
	@$(PYTHON) -B tests/harness/format.py

# FUZZ_S seconds for each target. libFuzzer learns from the code that it reaches. It needs clang and
# its own library. Without them the corpus is changed at random, with a printed seed. build/fuzz
# keeps what was found.
FUZZ_S ?= 60
FUZZ_SEED ?= $(shell date +%s)
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
.PHONY: fuzz
fuzz: deps-check
	@tests/harness/deps.sh clang libclang-rt-14-dev || :
	@mkdir -p build/fuzz
	+@$(MAKE_AGAIN) fuzz-$$( \
		echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
		clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo clang || echo changes)
.PHONY: fuzz-clang fuzz-changes
fuzz-clang: $(FUZZ_NAMES:%=build/fuzz/%)
	@cd build/fuzz && for name in $(FUZZ_NAMES); do \
		mkdir -p found/$$name && echo "$$name: $(FUZZ_S) s, seed $(FUZZ_SEED)" && \
		./$$name -max_total_time=$(FUZZ_S) -seed=$(FUZZ_SEED) -max_len=8192 -timeout=10 -print_final_stats=1 \
			-artifact_prefix=crash-$$name- found/$$name ../../tests/fuzz/corpus/$$name > $$name.log 2>&1 \
			|| { cat $$name.log; exit 1; } && \
		sed -n -e 's/^stat::number_of_executed_units: */  inputs: /p' \
			-e 's/^#.*DONE *cov: \([0-9]*\).*/  edges reached: \1/p' $$name.log; \
	done
fuzz-changes:
	+@$(MAKE_AGAIN) $(SAN) $(FUZZ_NAMES:%=build/san/tests/fuzz/%)
	@cd build/fuzz && for name in $(FUZZ_NAMES); do \
		echo "$$name: $(FUZZ_S) s, seed $(FUZZ_SEED)" && \
		../san/tests/fuzz/$$name ../../tests/fuzz/corpus/$$name $(FUZZ_S) $(FUZZ_SEED) || exit; \
	done
FUZZ_HTTP := arena buf chunks crypto fault head reply request text
FUZZ_SRC := $(wildcard bin/deferred_http/protocol/*.c) bin/deferred_runner/program_message.c $(FUZZ_HTTP:%=lib/http/%.c) \
	$(FUZZ_OUTBOUND:%=lib/plugins/http/%.c) $(addprefix lib/base/,error.c log.c outlet.c span.c) \
	$(wildcard lib/base/text/*.c lib/port/config*.c lib/port/plugin*.c) $(addprefix lib/port/,secret_file.c trusted.c)
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h $(FUZZ_SRC) \
		$(wildcard bin/deferred_http/protocol/*.h lib/http/*.h lib/port/*.h)
	@mkdir -p $(@D)
	$(call say,CC)clang -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -DDEFERRED_SYSCONFDIR='"/etc"' -DDEFERRED_PLUGINDIR='"/"' \
		-Ilib/include -Ilib -Ibin/deferred_http -Ibin/deferred_runner -Itests/fuzz -o $@ \
		$(filter %.c,$^) $(FUZZ_LIBS)

.PHONY: demo demo-web screenshots pg pg-stop
demo: deps-demo
	+@$(MAKE_AGAIN) -s demo-programs
	@WEB="$(WEB)" tests/demo/demo.sh
demo-web: deps-demo
	+@$(MAKE_AGAIN) -s all
	@$(PYTHON) tests/demo/web.py $(if $(SEED),--seed $(SEED))
# The week and the seed are the same each time. The time of day differs.
screenshots: deps-demo
	@tests/harness/deps.sh chromium fonts-dejavu-core nodejs npm
	+@$(MAKE_AGAIN) -s all build/browser/installed
	@cp tests/web/browser/shots.mjs build/browser
	@$(PYTHON) tests/demo/web.py --seed 7 --port 0 -- node build/browser/shots.mjs tests/demo/pictures
.PHONY: demo-programs
demo-programs: all $(B)/tests/demo/demo

# Standard output is for eval "$$(make -s pg)".
.PHONY: pg pg-stop
pg: deps-demo
	+@$(MAKE_AGAIN) all >&2
	@$(PYTHON) tests/harness/pg.py keep
pg-stop:
	@test ! -e build/pg/place || $(PYTHON) tests/harness/pg.py stop-kept
