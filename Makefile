# deferred - a job runner for applications that have PostgreSQL.
#
# Targets
#   all              build programs, libraries and plugins into build/ (default)
#   help             print this list
#   demo             send mail through a real cron and SMTP server; WEB=1 adds pages
#   demo-web         show the operators' pages with a week of history
#   pg, pg-stop      start a private server and print how to reach it; stop it
#   site             make a static site of the documentation in build/site
#   install, uninstall   honour DESTDIR, prefix, libdir, mandir, sysconfdir
#   deps             install all packages as root, or print the apt command
#   clean            stop the private server and remove build/
#
# Tests
#   check            tests that are not slow; WHOLE=1 adds slow ones and sanitizers
#   check-quick      the same without the builds for the sanitizers
#   check-unit       unit tests that need no server
#   check-san        all tests under AddressSanitizer and UBSan
#   check-postgres   tests of SQL, rules and doctor against PostgreSQL 18
#   check-lint, lint static analysis, man pages, prose, mutants that apply
#   check-faults     long fault tests with a printed seed
#   check-web        pages and site in a real browser
#   check-metrics    metrics and alerts with a real Prometheus
#   check-ha         failover with pg_auto_failover
#   check-scale      several servers under kills
#   check-schedules  all clock changes of 30 years; croniter and systemd compared
#   check-advise     advice followed in scaled time, for 20 workloads
#   check-packages   build, install, upgrade and purge the Debian packages
#   ledger           kill everything and count the jobs: LEDGER_JOBS, LEDGER_KILLS,
#                    LEDGER_LINES=FILE, LEDGER_ONLY=WORD
#   growth           weeks of use in minutes: does anything grow? GROWTH_STARTS
#   mutants          break each guard; a named test must notice
#   fuzz             feed readers of requests with random input, FUZZ_S seconds
#
# Figures and releases
#   bench, bench-NAME  ratios to plain PostgreSQL: tests/bench/README.md
#                    BENCH_QUICK=1 for small sizes, BENCH_ARGS="--jobs 50000 ..."
#   bench-rules, bench-peers, bench-wake, bench-runners, bench-web, bench-http
#   screenshots      take the pictures of README from demo-web
#   dist, deb        source tarball; Debian packages in build/deb
#
# Variables: CC, CFLAGS and LDFLAGS add to ours. V=1 prints whole commands. SANITIZE=address,undefined
# builds into a folder of its own. SEED=N repeats a random test. TESTS="tests/bin/test_x.py -k word"
# selects tests; tests/lib/NAME_test.c or .sh in it selects a unit test. Tests that it does not name do
# not run, and the closing lines say so.

.DEFAULT_GOAL := all
.PHONY: help
help:
	@sed -n '/^# Targets/,/^$$/s/^# \{0,1\}//p' Makefile
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

VERSION := 0.1.0
# Changes when programs that were linked with the library have to be linked anew; lib/libdeferred.map names it too.
SONAME := libdeferred.so.1
ifeq ($(origin PREFIX),command line)
$(error PREFIX counts for nothing here: say prefix=$(PREFIX))
endif
prefix ?= /usr/local
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
libdir ?= $(exec_prefix)/lib
libexecdir ?= $(exec_prefix)/libexec/deferred
plugindir ?= $(libdir)/deferred/plugins
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
datadir ?= $(prefix)/share/deferred
docdir ?= $(prefix)/share/doc/deferred
bashdir ?= $(prefix)/share/bash-completion/completions
zshdir ?= $(prefix)/share/zsh/site-functions
sysconfdir ?= /etc

# What is needed, as Debian calls it.
DEPS_BUILD := gcc make pkg-config libc6-dev libpq-dev libjansson-dev libconfuse-dev libcurl4-openssl-dev libmicrohttpd-dev \
	libgnutls28-dev libexpat1-dev libssl-dev
DEPS_DEMO := $(DEPS_BUILD) postgresql python3 python3-aiosmtpd cron
DEPS_CHECK := $(DEPS_DEMO) valgrind libcmocka-dev libdw-dev g++ perl python3-pytest python3-pytest-xdist python3-psycopg2 \
	python3-psycopg libdbd-pg-perl php-cli php-pgsql pgbouncer openssl patch nginx zsh mandoc python3-markdown
DEPS_SCHEDULES := $(DEPS_CHECK) python3-croniter systemd tzdata
DEPS_LINT := $(DEPS_CHECK) clang cppcheck
DEPS_DEB := $(DEPS_BUILD) build-essential dpkg-dev debhelper libdw-dev libcmocka-dev perl xz-utils
DEPS_PACKAGES := $(DEPS_DEB) postgresql python3-pytest python3-psycopg2 lintian mmdebstrap
PYTHON := /usr/bin/python3

ifdef SANITIZE
B := build/$(if $(filter thread,$(SANITIZE)),tsan,san)
SAN_FLAGS := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined -O1
else
B := build
endif

CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O2 -g
OBJCOPY ?= objcopy
PKGS := libpq jansson
CONFUSE_LIBS := $(shell pkg-config --libs libconfuse 2>/dev/null)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) libconfuse libcurl 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm
CRYPTO_LIBS := $(shell pkg-config --libs libcrypto 2>/dev/null)
CURL_LIBS := $(shell pkg-config --libs libcurl 2>/dev/null)
# Lines in backtraces, where it is there: nothing else needs it.
DW_LIBS := $(shell pkg-config --libs libdw 2>/dev/null)
HTTP_LIBS := $(shell pkg-config --libs libmicrohttpd gnutls expat libcrypto 2>/dev/null)
# What the end of a table's row leaves out is zero.
WARN := -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wformat=2 -Wvla
OUR_CFLAGS = -std=c11 -D_GNU_SOURCE $(FORTIFY) -fPIC -fvisibility=hidden -fstack-protector-strong $(WARN) \
	-Ilib/include -Ilib -I$(B)/gen $(PKG_CFLAGS) $(SAN_FLAGS) \
	-DDEFERRED_LIBEXECDIR='"$(libexecdir)"' -DDEFERRED_PLUGINDIR='"$(plugindir)"' -DDEFERRED_SYSCONFDIR='"$(sysconfdir)"'
comma := ,
FORTIFY = $(if $(SANITIZE)$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
OUR_LDFLAGS := -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE) -Wl$(comma)-u$(comma)dl_iterate_phdr)
COMPILE = $(CC) $(OUR_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(if $(SANITIZE),-O1) -MMD -MP
LINK = $(CC) $(OUR_LDFLAGS) $(LDFLAGS) $(CFLAGS)

# The floors of the house, lowest first: what lies in one includes what lies lower (tests/harness/floors.py). http is a floor of those programs
# that serve it, and goes into no library.
FLOORS := base port store run engine api program
objects = $(patsubst %.c,$(B)/obj/%.o,$(foreach folder,$1,$(wildcard $(folder)/*.c)))
LIB_SRC := $(foreach floor,$(FLOORS),$(wildcard lib/$(floor)/*.c))
LIB_OBJ := $(call objects,$(FLOORS:%=lib/%)) $(B)/obj/gen/sql.o
API_OBJ := $(call objects,lib/api) $(B)/obj/lib/base/backoff.o # public too, and used below
ifeq ($(SANITIZE),thread)
LIB_OBJ := $(B)/obj/lib/api/coordinator.o $(B)/obj/lib/base/error.o
else ifdef SANITIZE
LIB_OBJ += $(B)/obj/tests/harness/leak_roots.o
$(B)/obj/tests/harness/leak_roots.o: OUR_CFLAGS += -fno-sanitize=all # runs before the sanitizers are ready
endif
CHECK_DEFERRED_OBJ := $(call objects,bin/check_deferred)
DEFERRED_OBJ := $(call objects,bin/deferred)
HTTP_PURE_OBJ := $(call objects,bin/deferred_http/protocol)
HTTP_OBJ := $(call objects,bin/deferred_http bin/deferred_http/front) $(HTTP_PURE_OBJ)
$(HTTP_OBJ): OUR_CFLAGS += -Ibin/deferred_http
WEB_OBJ := $(call objects,bin/deferred_web)
$(WEB_OBJ): OUR_CFLAGS += -Ibin/deferred_web -DASSETS_FOLDER='"$(B)/gen/web/"'
$(WEB_OBJ): $(B)/gen/web_assets.h
RUNNER_OBJ := $(call objects,bin/deferred_runner)
BACKTRACE_OBJ := $(call objects,bin/deferred_backtrace)
$(BACKTRACE_OBJ): OUR_CFLAGS += $(if $(DW_LIBS),-DHAVE_LIBDW)
PLUGIN_NAMES := $(sort $(patsubst lib/plugins/%.c,%,$(wildcard lib/plugins/*.c)) \
	$(patsubst lib/plugins/%/,%,$(dir $(wildcard lib/plugins/*/*.c))))
PLUGINS := $(PLUGIN_NAMES:%=$(B)/plugins/%.so)
# Views come after the functions they call.
SQL := $(foreach folder,migrations functions views queries,$(sort $(wildcard sql/$(folder)/*.sql)))

# What people start, and what those start. Each of the first has its completion for shells; "COMPLETED=" for a build whose programs
# cannot run here.
COMMANDS := check_deferred deferred deferred_http deferred_web
HELPERS := deferred_runner deferred_backtrace deferred_config
PROGRAMS := $(addprefix $(B)/bin/,$(COMMANDS) $(HELPERS))
COMPLETED := $(COMMANDS)
COMPLETIONS := $(COMPLETED:%=$(B)/completion/bash/%) $(COMPLETED:%=$(B)/completion/zsh/_%)
LIBS := $(B)/lib/libdeferred.a $(B)/lib/libdeferred.so

# What a rule says: V=1 for the whole command, nothing with -s.
ifdef V
say =
else ifneq ($(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS)))),)
say = @
else
say = @printf '  %-4s %s\n' $1 $@;
endif

.PHONY: all
all: $(LIBS) $(PROGRAMS) $(PLUGINS) $(COMPLETIONS)

# Changes when the compiler or its flags do (another prefix, say), and has everything built anew then.
FLAGS_NOW = $(COMPILE) $(LINK) $(PKG_LIBS)
.PHONY: FORCE
FORCE:
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@

# The header has names only. It keeps its time while they are the same, so that another text compiles one file.
$(B)/gen/sql.h: $(B)/gen/sql.c
	@awk -v mode=h -f sql/embed.awk $(SQL) > $@.$$$$ && if cmp -s $@.$$$$ $@; then rm $@.$$$$; else mv $@.$$$$ $@; fi
$(B)/gen/sql.c: $(SQL) sql/embed.awk
	@mkdir -p $(@D)
	$(call say,SQL)awk -v mode=c -f sql/embed.awk $(SQL) > $@.tmp && mv $@.tmp $@
$(B)/obj/gen/sql.o: $(B)/gen/sql.c $(B)/gen/sql.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -Wno-overlength-strings -c $< -o $@
$(B)/obj/%.o: %.c $(B)/flags | $(B)/gen/sql.h
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -c $< -o $@

# What our own programs are linked with: all of the library, private parts and all.
# Two floors may have files of one name: added, none replaces the other.
$(B)/obj/internal.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(AR) qcs $@ $^
$(B)/obj/http.a: $(call objects,lib/http)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(AR) qcs $@ $^
# Under -flto the object is machine code in the end: its symbols could not be made local otherwise. clang always does that.
LTO_ENDS := $(if $(findstring clang,$(CC)),,-flinker-output=nolto-rel)
# What others are linked with is the API and what that needs, and no libcrypto; in the static one as one object that shows the public
# names alone, so that theirs cannot collide with ours.
$(B)/lib/libdeferred.a: $(API_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,AR)$(CC) $(CFLAGS) $(if $(findstring -flto,$(CFLAGS)),$(LTO_ENDS)) -nostdlib -r -o $(B)/obj/libdeferred.o $^ && $(OBJCOPY) --localize-hidden $(if $(SANITIZE),--localize-symbol=dl_iterate_phdr) $(B)/obj/libdeferred.o && \
		rm -f $@ && $(AR) rcs $@ $(B)/obj/libdeferred.o
$(B)/lib/libdeferred.so: $(API_OBJ) $(B)/obj/internal.a lib/libdeferred.map
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared -Wl,-z,nodelete -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libdeferred.map $(if $(SANITIZE),,-Wl,--no-undefined) \
		-o $@ $(API_OBJ) $(B)/obj/internal.a $(PKG_LIBS) -ldl -lpthread
	@ln -sf libdeferred.so $(@D)/$(SONAME)

$(B)/bin/check_deferred: $(CHECK_DEFERRED_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(CRYPTO_LIBS) -ldl -lpthread
$(B)/bin/deferred: $(DEFERRED_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(CRYPTO_LIBS) -ldl -lpthread
$(B)/bin/deferred_http: $(HTTP_OBJ) $(B)/obj/http.a $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(HTTP_LIBS) -ldl -lpthread
$(B)/bin/deferred_web: $(WEB_OBJ) $(B)/obj/http.a $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(HTTP_LIBS) -ldl -lpthread
# What the page needs, inside the program: compressed, each with a name that changes with it.
WEB_ASSETS := $(wildcard bin/deferred_web/assets/*)
$(B)/gen/web_assets.h: $(WEB_ASSETS)
	@mkdir -p $(B)/gen/web
	$(call say,GZ)for file in $(WEB_ASSETS); do \
		name=$${file##*/}; id=$$(echo $$name | tr . _); gzip -9n < $$file > $(B)/gen/web/$$id.gz || exit; \
		echo "#define ASSET_$$id \"/$${name%.*}-$$(sha256sum < $$file | cut -c1-12).$${name##*.}\""; \
	done > $@.tmp && mv $@.tmp $@
# It holds no database connection, and nothing of libpq.
$(B)/bin/deferred_runner: $(RUNNER_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -rdynamic -o $@ $^ -ljansson -ldl
# Reads files that may be anything, and has nothing of ours in it.
$(B)/bin/deferred_backtrace: $(BACKTRACE_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(DW_LIBS)
# It may run out of memory with libconfuse, and so is no part of those that must not.
$(B)/bin/deferred_config: $(B)/obj/bin/deferred_config/main.o $(B)/obj/lib/port/config_table.o
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(CONFUSE_LIBS)

$(B)/completion/bash/%: $(B)/bin/% bin/completion.awk
	@mkdir -p $(@D)
	$(call say,AWK)$< --describe > $@.tmp && awk -v shell=bash -f bin/completion.awk $@.tmp > $@ && rm $@.tmp
$(B)/completion/zsh/_%: $(B)/bin/% bin/completion.awk
	@mkdir -p $(@D)
	$(call say,AWK)$< --describe > $@.tmp && awk -v shell=zsh -f bin/completion.awk $@.tmp > $@ && rm $@.tmp

# A plugin is the file lib/plugins/NAME.c or all those of the folder lib/plugins/NAME, linked with what it names here.
PLUGIN_LIBS_send_mail = $(CURL_LIBS) -ljansson
PLUGIN_LIBS_sample = -ljansson
$(B)/plugins/send_mail.so $(B)/plugins/sample.so: $(B)/obj/lib/port/beneath.o
$(B)/plugins/send_mail.so: $(B)/obj/lib/port/secret_file.o $(B)/obj/lib/base/mail_rules.o $(B)/obj/lib/base/base64.o
$(foreach name,$(PLUGIN_NAMES),$(eval \
	$(B)/plugins/$(name).so: $(patsubst %.c,$(B)/obj/%.o,$(wildcard lib/plugins/$(name).c lib/plugins/$(name)/*.c))))
$(B)/plugins/%.so:
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared -o $@ $(filter %.o,$^) $(PLUGIN_LIBS_$*)

# ---- tests: a unit test is one file tests/lib/NAME_test.c, a bad plugin one file tests/plugins/NAME.c

UNIT_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/lib/*_test.c))
TEST_PLUGINS := $(patsubst tests/plugins/%.c,$(B)/tests/plugins/%.so,$(wildcard tests/plugins/*.c))
PLUGIN_LIBS_unruly = -ljansson
PLUGIN_LIBS_forger = -ljansson -lpthread
PLUGIN_LIBS_archive = -lpq -ljansson
PLUGIN_LIBS_neighbour = -lpq
# As a plugin outside this tree would with -ldeferred.
PLUGIN_LIBS_running = $(B)/lib/libdeferred.a $(PKG_LIBS) -ldl -lpthread
$(B)/tests/plugins/running.so: $(B)/lib/libdeferred.a
PLUGIN_LIBS_borrowed = -Wl,--no-as-needed,-rpath,$(CURDIR)/$(B)/plugins -L$(B)/plugins -l:sample.so
$(B)/tests/plugins/borrowed.so: $(B)/plugins/sample.so
# Preloaded into PostgreSQL too, and so without what a build asks for.
CLOCK_SHIFT := $(B)/tests/harness/clock_shift.so
TEST_HELPERS := $(patsubst %.c,$(B)/%,$(filter-out %/clock_shift.c %/leak_roots.c,$(wildcard tests/harness/*.c))) $(CLOCK_SHIFT)
BENCH_PROGRAMS := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/*.c))
MODELS := $(patsubst %.c,$(B)/%,$(wildcard tests/model/*.c))

$(B)/tests/plugins/%.so: tests/plugins/%.c $(B)/flags
	@mkdir -p $(@D) $(B)/obj/tests/plugins
	$(call say,CC)$(COMPILE) -MF $(B)/obj/tests/plugins/$*.d -shared $(OUR_LDFLAGS) $(LDFLAGS) -o $@ $< $(PLUGIN_LIBS_$*)
# Models stand for themselves: nothing of the library is in them, and no checks of the compiler that would only slow them down.
$(MODELS): $(B)/tests/model/%: tests/model/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) $(LDFLAGS) -o $@ $<
$(CLOCK_SHIFT): tests/harness/clock_shift.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC $(WARN) -shared -o $@ $< -ldl
# These use what is public alone, and are linked with that.
TESTS_OUTSIDE := $(addprefix $(B)/tests/,lib/client_test harness/mail_call harness/oom_call demo/demo)
$(TESTS_OUTSIDE): TEST_ARCHIVE := $(B)/lib/libdeferred.a
$(TESTS_OUTSIDE): $(B)/lib/libdeferred.a
TEST_ARCHIVE := $(B)/obj/internal.a
$(B)/tests/%: tests/%.c $(B)/obj/internal.a $(B)/flags
	@mkdir -p $(@D) $(dir $(B)/obj/tests/$*)
	$(call say,CC)$(COMPILE) -MF $(B)/obj/tests/$*.d $(OUR_LDFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(TEST_ARCHIVE) $(PKG_LIBS) \
		$(if $(findstring tests/lib/,$<),-lcmocka) $(if $(findstring account_key,$<)$(findstring http_load,$<)$(findstring scale,$<),$(CRYPTO_LIBS)) -ldl -lpthread

# Of a program's own files, the one that is tested.
$(B)/tests/lib/pidfile_test: $(B)/obj/bin/check_deferred/pidfile.o
$(B)/tests/lib/pidfile_test: TEST_ARCHIVE := -Ibin/check_deferred $(B)/obj/bin/check_deferred/pidfile.o $(B)/obj/internal.a
$(B)/tests/lib/lineage_test: $(B)/obj/bin/check_deferred/lineage.o
$(B)/tests/lib/lineage_test: TEST_ARCHIVE := -Ibin/check_deferred $(B)/obj/bin/check_deferred/lineage.o $(B)/obj/internal.a

# Those of the HTTP front are linked with all of it but main.c.
$(B)/tests/lib/http_%: tests/lib/http_%.c $(filter-out %/main.o,$(HTTP_OBJ)) $(B)/obj/http.a $(B)/obj/internal.a $(B)/flags
	@mkdir -p $(@D) $(B)/obj/tests/lib
	$(call say,CC)$(COMPILE) -Ibin/deferred_http -MF $(B)/obj/tests/lib/http_$*.d $(OUR_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o %.a,$^) \
		$(PKG_LIBS) $(HTTP_LIBS) -lcmocka -ldl -lpthread

# What reads a request, and needs neither server nor database: that is what the fuzz targets are made of.
FUZZ_TARGETS := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_LIBS := $(shell pkg-config --libs expat libcrypto jansson 2>/dev/null)
$(B)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/driver.c $(HTTP_PURE_OBJ) $(B)/obj/http.a $(B)/obj/internal.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -MF /dev/null -Ibin/deferred_http -Itests/fuzz $(OUR_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o %.a,$^) $(FUZZ_LIBS)

.PHONY: tests
tests: test-parts $(FUZZ_TARGETS) $(UNIT_TESTS) $(B)/tests/demo/demo
# What pytest's need.
.PHONY: test-parts
test-parts: all $(TEST_PLUGINS) $(TEST_HELPERS) $(MODELS)

-include $(wildcard $(B)/obj/*/*.d $(B)/obj/*/*/*.d $(B)/obj/*/*/*/*.d)

# The first step of each target below installs what is missing, so the rest is a second make: what
# pkg-config says is then read anew.
.PHONY: deps deps-build deps-demo deps-check deps-schedules deps-lint deps-deb deps-packages
deps: deps-lint
deps-build deps-demo deps-check deps-schedules deps-lint deps-deb deps-packages: deps-%:
	@tests/harness/deps.sh $(DEPS_$(shell echo $* | tr a-z A-Z))

# Where nothing was said about jobs at a time, as many as there are processors.
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
SAN := SANITIZE=address,undefined
TSAN := SANITIZE=thread
THREADS_TESTS := build/tsan/tests/lib/coordinator_test
.PHONY: check check-quick check-san check-faults check-metrics check-advise check-schedules check-lint lint bench bench-rules demo
check: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) tests
	+@$(MAKE) --no-print-directory $(PARALLEL) $(SAN) tests
	+@$(MAKE) --no-print-directory $(PARALLEL) $(TSAN) $(THREADS_TESTS)
	@$(PYTHON) tests/harness/check.py --threads build/tsan $(if $(WHOLE),--shortened build/san,--quick --unit build/san) build -- $(TESTS)
check-quick: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) tests
	@$(PYTHON) tests/harness/check.py --quick build -- $(TESTS)
check-san: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) $(SAN) tests
	@$(PYTHON) tests/harness/check.py build/san -- $(TESTS)
check-faults: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) tests
	@$(PYTHON) tests/harness/check.py --faults $(if $(SEED),--seed $(SEED)) build -- $(TESTS)
LEDGER_JOBS ?= 6000
LEDGER_KILLS ?= 60
.PHONY: ledger growth
ledger: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts
	@$(PYTHON) tests/faults/ledger.py $(if $(SEED),--seed $(SEED)) --jobs $(LEDGER_JOBS) --kills $(LEDGER_KILLS) $(if $(LEDGER_LINES),--lines $(LEDGER_LINES)) \
		$(if $(LEDGER_ONLY),--only "$(LEDGER_ONLY)",--table tests/faults/LEDGER.md)
growth: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts
	@$(PYTHON) tests/faults/growth.py $(if $(SEED),--seed $(SEED)) $(if $(GROWTH_STARTS),--starts $(GROWTH_STARTS))
# The major version of the newest server, which the tests use too.
SERVER = $(shell basename -a /usr/lib/postgresql/* | sort -n | tail -n 1)
.PHONY: check-ha check-scale
check-ha: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) pg-auto-failover-cli postgresql-$(SERVER)-auto-failover pgbouncer openssl
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts
	@DEFERRED_HA=1 PYTHONPATH=tests/ha:tests/harness $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/ha $(TESTS)
check-scale: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) postgresql-$(SERVER)-plproxy
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts
	@DEFERRED_SCALE=1 $(if $(SEED),SEED=$(SEED)) PYTHONPATH=tests/faults:tests/harness $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/scale $(TESTS)
	+@$(MAKE) --no-print-directory bench-shards
check-metrics: deps-check
	@tests/harness/deps.sh $(DEPS_CHECK) prometheus
	+@$(MAKE) --no-print-directory $(PARALLEL) tests
	@$(PYTHON) -m pytest -q tests/bin/test_figures.py tests/bin/test_metrics.py
# The first of 20 seeds. Those from 0 on are the ones it was written by; any other number has it try workloads that nobody has seen.
check-advise: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts
	@$(PYTHON) tests/harness/check_advise.py $(if $(SEED),--seed $(SEED))
check-schedules: deps-schedules
	+@$(MAKE) --no-print-directory $(PARALLEL) all
	@$(PYTHON) tests/schedules/check_schedules.py $(if $(SEED),--seed $(SEED))
# MUTANTS="pidfile_* copy_end" narrows, JOBS is how many at a time.
.PHONY: mutants
mutants: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) tests
	@$(PYTHON) tests/mutants/mutants.py $(if $(JOBS),--jobs $(JOBS)) $(MUTANTS)
include tests/tests.mk
check-lint: deps-lint
	+@$(MAKE) --no-print-directory $(PARALLEL) lint
MAN_PAGES := $(wildcard lib/*.[1-8] bin/*/*.[1-8] cron/*.[1-8] docs/man/*.[1-8])
# The plugin sample crashes on purpose. gcc -fanalyzer is not among these: it takes lists for leaks.
lint: $(B)/gen/sql.h $(B)/gen/web_assets.h
	@for tool in gcc clang cppcheck mandoc patch; do command -v $$tool > /dev/null || \
		{ printf 'make lint: %s: not found\nhint: make deps-lint\n' $$tool >&2; exit 1; }; done
	$(PYTHON) tests/harness/floors.py
	$(PYTHON) tests/mutants/mutants.py --dry-run
	$(PYTHON) tests/docs/prose.py
	@for cc in "gcc -c -o /dev/null" "clang -fsyntax-only"; do \
		for file in $(wildcard lib/*/*.c lib/plugins/*/*.c bin/*/*.c bin/deferred_http/*/*.c tests/lib/*.c tests/harness/*.c tests/bench/*.c); do \
			$$cc -Werror $(OUR_CFLAGS) -O2 -Ibin/check_deferred -Ibin/deferred_http -Ibin/deferred_web -DASSETS_FOLDER='"$(B)/gen/web/"' $$file || exit; \
		done; \
	done
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --std=c11 -D_GNU_SOURCE \
		--suppress=missingIncludeSystem --suppress=nullPointer:lib/plugins/sample.c --suppress=zerodiv:lib/plugins/sample.c \
		--suppress=invalidFunctionArgBool:lib/port/pg.c --suppress=arrayIndexThenCheck \
		-Ilib/include -Ilib -Ibin/deferred_http -Ibin/deferred_web -I$(B)/gen lib bin
	mandoc -Tlint -Wwarning $(MAN_PAGES)

# FUZZ_S seconds for each target. With clang, where it has what that needs, by libFuzzer, which learns from what code it reaches; else changes of the corpus
# at random, with a seed that is said. What was found is left in build/fuzz.
FUZZ_S ?= 60
FUZZ_SEED ?= $(shell date +%s)
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
.PHONY: fuzz
fuzz: deps-check
	@tests/harness/deps.sh clang libclang-rt-14-dev || :
	@mkdir -p build/fuzz
	+@$(MAKE) --no-print-directory $(PARALLEL) fuzz-$$(echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
		clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo clang || echo changes)
.PHONY: fuzz-clang fuzz-changes
fuzz-clang: $(FUZZ_NAMES:%=build/fuzz/%)
	@cd build/fuzz && for name in $(FUZZ_NAMES); do \
		mkdir -p found/$$name && echo "$$name: $(FUZZ_S) s, seed $(FUZZ_SEED)" && \
		./$$name -max_total_time=$(FUZZ_S) -seed=$(FUZZ_SEED) -max_len=8192 -timeout=10 -print_final_stats=1 \
			-artifact_prefix=crash-$$name- found/$$name ../../tests/fuzz/corpus/$$name > $$name.log 2>&1 || { cat $$name.log; exit 1; } && \
		sed -n 's/^stat::number_of_executed_units: */  inputs: /p; s/^#.*DONE *cov: \([0-9]*\).*/  edges reached: \1/p' $$name.log; \
	done
fuzz-changes:
	+@$(MAKE) --no-print-directory $(PARALLEL) $(SAN) $(FUZZ_NAMES:%=build/san/tests/fuzz/%)
	@cd build/fuzz && for name in $(FUZZ_NAMES); do \
		echo "$$name: $(FUZZ_S) s, seed $(FUZZ_SEED)" && \
		../san/tests/fuzz/$$name ../../tests/fuzz/corpus/$$name $(FUZZ_S) $(FUZZ_SEED) || exit; \
	done
FUZZ_HTTP := arena crypto fault reply request text wire
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h $(wildcard bin/deferred_http/protocol/*.c) $(FUZZ_HTTP:%=lib/http/%.c) lib/base/log.c lib/base/visible.c lib/base/utf8.c $(wildcard bin/deferred_http/protocol/*.h lib/http/*.h)
	@mkdir -p $(@D)
	$(call say,CC)clang -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-Ilib/include -Ilib -Ibin/deferred_http -Itests/fuzz -o $@ $(filter %.c,$^) $(FUZZ_LIBS)

BENCH_SCENARIOS := $(filter-out __init__,$(patsubst tests/bench/scenarios/%.py,%,$(wildcard tests/bench/scenarios/*.py)))
.PHONY: bench-programs $(BENCH_SCENARIOS:%=bench-%)
bench $(BENCH_SCENARIOS:%=bench-%): deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) bench-programs
	@BENCH_QUICK=$(BENCH_QUICK) $(PYTHON) tests/bench/bench.py $(patsubst bench-%,%,$(filter-out bench,$@)) $(BENCH_ARGS)
	@if [ $@ = bench ]; then build/tests/bench/coordinator_ns; fi
bench-rules: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) bench-programs $(B)/tests/plugins/archive.so
	@$(PYTHON) tests/bench/rules.py
.PHONY: bench-web
bench-web: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) all
	@BENCH_QUICK=$(BENCH_QUICK) $(PYTHON) tests/bench/web.py $(BENCH_ARGS)
.PHONY: bench-wake bench-runners
bench-wake bench-runners: bench-%: deps-check
	+@$(MAKE) --no-print-directory $(PARALLEL) tests bench-programs
	@$(PYTHON) tests/bench/$*.py
bench-programs: all $(BENCH_PROGRAMS) $(B)/tests/plugins/stamp.so

# Modules are looked for beside the scripts that name them, so those run from where npm puts the packages. PEERS="--only held
# --rounds 1" passes options on; NODE names another node.
NODE ?= $(or $(shell command -v node),/usr/bin/node)
export NODE
PEERS_SRC := $(wildcard tests/bench/peers/*.mjs)
.PHONY: bench-peers
bench-peers: deps-check
	@command -v npm >/dev/null || tests/harness/deps.sh nodejs npm
	+@$(MAKE) --no-print-directory $(PARALLEL) bench-programs build/bench/peers/installed
	@cp $(PEERS_SRC) build/bench/peers
	@$(PYTHON) tests/bench/peers/peers.py $(PEERS)
build/bench/peers/installed: $(addprefix tests/bench/peers/,package.json package-lock.json .npmrc)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@

# The browser is large, and so no part of what check installs.
.PHONY: check-web
check-web: deps-check
	@tests/harness/deps.sh chromium fonts-dejavu-core $(if $(shell command -v npm),,nodejs npm)
	+@$(MAKE) --no-print-directory $(PARALLEL) test-parts build/browser/installed
	@DEFERRED_BROWSER=1 $(PYTHON) -m pytest -q tests/web tests/docs/test_site.py
build/browser/installed: $(addprefix tests/web/browser/,package.json package-lock.json)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --no-engine-strict --loglevel error && touch $@

.PHONY: site
site: deps-check
	@$(PYTHON) -B docs/site/site.py build/site && echo build/site/index.html

demo: deps-demo
	+@$(MAKE) --no-print-directory $(PARALLEL) -s demo-programs
	@WEB="$(WEB)" tests/demo/demo.sh
.PHONY: demo-web screenshots
demo-web: deps-demo
	+@$(MAKE) --no-print-directory $(PARALLEL) -s all
	@$(PYTHON) tests/demo/web.py $(if $(SEED),--seed $(SEED))
# The week and the seed are the same each time, the time of day is not.
screenshots: deps-demo
	@tests/harness/deps.sh chromium fonts-dejavu-core $(if $(shell command -v npm),,nodejs npm)
	+@$(MAKE) --no-print-directory $(PARALLEL) -s all build/browser/installed
	@cp tests/web/browser/shots.mjs build/browser
	@$(PYTHON) tests/demo/web.py --seed 7 --port 0 -- node build/browser/shots.mjs tests/demo/pictures
.PHONY: demo-programs
demo-programs: all $(B)/tests/demo/demo

# Standard output is for eval "$$(make -s pg)".
.PHONY: pg pg-stop
pg: deps-demo
	+@$(MAKE) --no-print-directory $(PARALLEL) all >&2
	@$(PYTHON) tests/harness/pg.py keep
pg-stop:
	@test ! -e build/pg/place || $(PYTHON) tests/harness/pg.py stop-kept

# ---- packages

NAME_VERSION := deferred-$(VERSION)
# The same bytes from the same files, whoever makes it, and when: of the time of the last commit.
DIST_TIME = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),$(shell stat -c %Y CHANGELOG.md))
.PHONY: dist deb check-packages check-unit
dist:
	@mkdir -p build
	@if [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$(CURDIR)" ]; then git ls-files; \
		else find . -type f ! -path './build/*' ! -path './build-*' ! -path './.git/*' ! -name '*.pyc' -printf '%P\n'; fi | LC_ALL=C sort > build/dist.files
	@tar -c --format=ustar --transform 's,^,$(NAME_VERSION)/,' --owner=root:0 --group=root:0 --mode=u=rwX,go=rX --mtime=@$(DIST_TIME) \
		--files-from=build/dist.files | xz -T1 > build/$(NAME_VERSION).tar.xz.tmp
	@mv build/$(NAME_VERSION).tar.xz.tmp build/$(NAME_VERSION).tar.xz
	@echo build/$(NAME_VERSION).tar.xz

# Debian's maintainers want no debian/ in what they get: it is put beside the sources here. What is built is the tarball, unpacked.
# DEB_PLACE is another folder than build/deb, DEB_ARGS goes to dpkg-buildpackage.
DEB_PLACE ?= build/deb
deb: deps-deb dist
	@rm -rf $(DEB_PLACE) && mkdir -p $(DEB_PLACE)
	@cp build/$(NAME_VERSION).tar.xz $(DEB_PLACE)/deferred_$(VERSION).orig.tar.xz
	@tar -C $(DEB_PLACE) -xf build/$(NAME_VERSION).tar.xz
	@cp -r cron/debian $(DEB_PLACE)/$(NAME_VERSION)/debian
	@cd $(DEB_PLACE)/$(NAME_VERSION) && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS dpkg-buildpackage -us -uc $(DEB_ARGS) > ../build.log 2>&1 || \
		{ tail -40 ../build.log; exit 1; }
	@ls $(DEB_PLACE)/*.deb
check-packages: deps-packages
	+@$(MAKE) --no-print-directory $(PARALLEL) all
	@$(PYTHON) -m pytest -v --durations=0 tests/package/packages.py

# No server: those that need one are told apart by the variable that names it.
UNIT_ALONE := $(patsubst %.c,$(B)/%,$(shell grep -L DEFERRED_TEST_DB tests/lib/*_test.c))
check-unit: all $(UNIT_ALONE) $(TEST_PLUGINS)
	@prove --merge $(UNIT_ALONE)

.PHONY: clean
clean: pg-stop
	rm -rf build

# ---- install

INSTALL ?= install
INSTALL_DATA = $(INSTALL) -m 644
PUBLIC_HEADERS := $(wildcard lib/include/*.h)
# sample is for trying things in the tree, and for the tests: a producer who may name append is not wanted on a machine that serves.
INSTALLED_PLUGINS := $(filter-out %/sample.so,$(PLUGINS))
DOCS := README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*/*.md)
SAMPLES := $(filter-out %.1 %.5 %.8 %/debian,$(wildcard cron/*))
# Samples and man pages are written for the default prefix.
NAME_PLACES = -e 's|/usr/local/bin|$(bindir)|g' -e 's|/usr/local/libexec/deferred|$(libexecdir)|g' -e 's|/etc/deferred|$(sysconfdir)/deferred|g'
man_path = $(mandir)/man$(subst .,,$(suffix $1))/$(notdir $1)
INSTALLED = $(COMMANDS:%=$(bindir)/%) $(HELPERS:%=$(libexecdir)/%) $(COMPLETED:%=$(bashdir)/%) $(COMPLETED:%=$(zshdir)/_%) \
	$(libdir)/libdeferred.a $(libdir)/libdeferred.so $(libdir)/$(SONAME) $(libdir)/$(SONAME).$(VERSION) \
	$(libdir)/pkgconfig/libdeferred.pc $(INSTALLED_PLUGINS:$(B)/plugins/%=$(plugindir)/%) $(PUBLIC_HEADERS:lib/include/%=$(includedir)/%) \
	$(foreach page,$(MAN_PAGES),$(call man_path,$(page))) $(SQL:sql/%=$(datadir)/sql/%) \
	$(SAMPLES:cron/%=$(docdir)/examples/%) $(DOCS:%=$(docdir)/%)

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(sort $(dir $(addprefix $(DESTDIR),$(INSTALLED))))
	$(INSTALL) $(COMMANDS:%=$(B)/bin/%) $(DESTDIR)$(bindir)
	$(INSTALL) $(HELPERS:%=$(B)/bin/%) $(DESTDIR)$(libexecdir)
	$(foreach name,$(COMPLETED),$(INSTALL_DATA) $(B)/completion/bash/$(name) $(DESTDIR)$(bashdir) && \
		$(INSTALL_DATA) $(B)/completion/zsh/_$(name) $(DESTDIR)$(zshdir) &&) :
	$(INSTALL_DATA) $(B)/lib/libdeferred.a $(DESTDIR)$(libdir)
	$(INSTALL_DATA) $(B)/lib/libdeferred.so $(DESTDIR)$(libdir)/$(SONAME).$(VERSION)
	ln -sf $(SONAME).$(VERSION) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libdeferred.so
	sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(patsubst $(prefix)/%,$${prefix}/%,$(libdir))|' \
		-e 's|@includedir@|$(patsubst $(prefix)/%,$${prefix}/%,$(includedir))|' -e 's|@plugindir@|$(plugindir)|' \
		-e 's|@VERSION@|$(VERSION)|' lib/libdeferred.pc.in > $(DESTDIR)$(libdir)/pkgconfig/libdeferred.pc
	$(INSTALL_DATA) $(INSTALLED_PLUGINS) $(DESTDIR)$(plugindir)
	$(INSTALL_DATA) $(PUBLIC_HEADERS) $(DESTDIR)$(includedir)
	$(foreach page,$(MAN_PAGES),$(INSTALL_DATA) $(page) $(DESTDIR)$(call man_path,$(page)) &&) :
	sed -i $(NAME_PLACES) $(foreach page,$(MAN_PAGES),$(DESTDIR)$(call man_path,$(page)))
	$(foreach folder,$(sort $(dir $(SQL))),$(INSTALL_DATA) $(filter $(folder)%,$(SQL)) $(DESTDIR)$(datadir)/$(folder) &&) :
	$(INSTALL_DATA) $(SAMPLES) $(DESTDIR)$(docdir)/examples
	sed -i $(NAME_PLACES) $(SAMPLES:cron/%=$(DESTDIR)$(docdir)/examples/%)
	$(foreach file,$(DOCS),$(INSTALL_DATA) $(file) $(DESTDIR)$(docdir)/$(dir $(file)) &&) :
uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@rmdir -p $(addprefix $(DESTDIR),$(plugindir) $(libexecdir) $(sort $(dir $(SQL:sql/%=$(datadir)/sql/%))) \
		$(sort $(dir $(DOCS:%=$(docdir)/%))) $(docdir)/examples $(bashdir) $(zshdir)) 2>/dev/null || :
