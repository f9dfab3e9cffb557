# deferred - a job runner for applications that have PostgreSQL.
#
# Targets
#   all              build programs, libraries and plugins into build/ (default)
#   help             print this list
#   site             make a static site of the documentation in build/site
#   deps             install the packages of all targets as root, or print the apt command
#   deps-build       install the packages that a build needs
#   deps-NAME        the same for demo, check, schedules, lint, deb or packages
#   clean            stop the private server and remove build/
#
# Variables: CC, CFLAGS and LDFLAGS add to ours. V=1 prints whole commands. WERROR=1 makes each
# warning an error. SANITIZE=address,undefined builds into a folder of its own. SEED=N repeats a
# random test. TESTS="tests/bin/test_x.py -k word" selects tests. tests/lib/NAME_test.c or .sh in it
# selects a unit test. Other tests do not run, and the closing lines say so.

.DEFAULT_GOAL := all
.PHONY: help
help:
	@sed -sn '/^# Targets/,/^$$/{s/^# \{0,1\}//;p}' $(filter Makefile %.mk,$(MAKEFILE_LIST))
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

VERSION := 0.2.0
# Changes when programs have to be linked with the library again. lib/libdeferred.map names it too.
SONAME := libdeferred.so.1
ifeq ($(origin PREFIX),command line)
$(error PREFIX is not a variable of this Makefile: use prefix=$(PREFIX))
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
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) libcurl 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm
CRYPTO_LIBS := $(shell pkg-config --libs libcrypto 2>/dev/null)
CURL_LIBS := $(shell pkg-config --libs libcurl 2>/dev/null)
# Only lines in backtraces need libdw. It is optional.
DW_LIBS := $(shell pkg-config --libs libdw 2>/dev/null)
HTTP_LIBS := $(shell pkg-config --libs expat libssl libcrypto 2>/dev/null)
# Rows of our tables leave out trailing members, which are then zero.
WARN := -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wwrite-strings -Wformat=2 -Wvla $(if $(WERROR),-Werror)
OUR_CFLAGS = -std=c11 -D_GNU_SOURCE $(FORTIFY) -fPIC -fvisibility=hidden -fstack-protector-strong $(WARN) \
	-Ilib/include -Ilib -I$(B)/gen $(PKG_CFLAGS) $(SAN_FLAGS) \
	-DDEFERRED_LIBEXECDIR='"$(libexecdir)"' -DDEFERRED_PLUGINDIR='"$(plugindir)"' \
	-DDEFERRED_SYSCONFDIR='"$(sysconfdir)"'
comma := ,
FORTIFY = $(if $(SANITIZE)$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
OUR_LDFLAGS := -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE) -Wl$(comma)-u$(comma)dl_iterate_phdr)
COMPILE = $(CC) $(OUR_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(if $(SANITIZE),-O1) -MMD -MP
LINK = $(CC) $(OUR_LDFLAGS) $(LDFLAGS) $(CFLAGS)

# The floors of the house, lowest first: a floor includes only lower ones (tests/harness/floors.py).
# lib/http is a floor of the programs that serve HTTP. No library contains it.
FLOORS := base port store run engine api program
objects = $(patsubst %.c,$(B)/obj/%.o,$(foreach folder,$1,$(wildcard $(folder)/*.c $(folder)/*/*.c)))
LIB_SRC := $(foreach floor,$(FLOORS),$(wildcard lib/$(floor)/*.c lib/$(floor)/*/*.c))
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
$(DEFERRED_OBJ): OUR_CFLAGS += -Ibin/deferred
HTTP_PURE_OBJ := $(call objects,bin/deferred_http/protocol)
HTTP_OBJ := $(call objects,bin/deferred_http)
$(HTTP_OBJ): OUR_CFLAGS += -Ibin/deferred_http
$(B)/obj/bin/deferred_http/api/openapi.o: bin/deferred_http/api/openapi.json
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
SQL := $(foreach kind,migrations functions views queries,$(sort $(wildcard sql/$(kind)/*.sql sql/$(kind)/*/*.sql)))

# People start COMMANDS, and COMMANDS start HELPERS. A command prints its own completion for shells.
# "COMPLETED=" skips that, for a build whose programs cannot run on this machine.
COMMANDS := check_deferred deferred deferred_http deferred_web
HELPERS := deferred_runner deferred_backtrace
PROGRAMS := $(addprefix $(B)/bin/,$(COMMANDS) $(HELPERS))
COMPLETED := $(COMMANDS)
COMPLETIONS := $(COMPLETED:%=$(B)/completion/bash/%) $(COMPLETED:%=$(B)/completion/zsh/_%)
LIBS := $(B)/lib/libdeferred.a $(B)/lib/libdeferred.so

# A rule prints a short line, the whole command with V=1, nothing with -s.
ifdef V
say =
else ifneq ($(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS)))),)
say = @
else
say = @printf '  %-4s %s\n' $1 $@;
endif

.PHONY: all
all: $(LIBS) $(PROGRAMS) $(PLUGINS) $(COMPLETIONS)

# Changes with compiler, flags and prefix. Then all is built again. -Werror changes no object.
FLAGS_NOW = $(filter-out -Werror,$(COMPILE)) $(LINK) $(PKG_LIBS)
.PHONY: FORCE
FORCE:
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
		printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@

# Headers keep their time while they are the same: a changed text compiles one file.
SQL_H := $(B)/gen/sql.h $(patsubst sql/queries/%,$(B)/gen/rows/%.h,$(wildcard sql/queries/*))
$(B)/gen/sql.c: $(SQL) sql/embed.awk
	@mkdir -p $(@D)/rows $(@D)/new/rows
	$(call say,SQL)awk -v to=$(@D)/new/ -f sql/embed.awk $(SQL) && cd $(@D)/new && \
		for file in sql.h rows/*.h; do cmp -s $$file ../$$file || mv $$file ../$$file || exit; done && mv sql.c ..
$(SQL_H): $(B)/gen/sql.c
	@:
# Only this file contains the commit, so a new commit compiles one file and links the programs.
$(B)/gen/version.c: FORCE
	@mkdir -p $(@D)
	@bin/version.sh $(VERSION) > $@.tmp && { cmp -s $@.tmp $@ && rm $@.tmp || mv $@.tmp $@; }
$(B)/obj/gen/sql.o: $(SQL_H)
$(B)/obj/gen/%.o: $(B)/gen/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -Wno-overlength-strings -c $< -o $@
$(B)/obj/%.o: %.c $(B)/flags | $(SQL_H)
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE) -c $< -o $@

# Our own programs are linked with the whole library, including its private parts.
# Two floors may have files of the same name. "q" adds both; without it one would replace the other.
$(B)/obj/internal.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(AR) qcs $@ $^
$(B)/obj/http.a: $(call objects,lib/http)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(AR) qcs $@ $^
# With -flto gcc has to write machine code, or objcopy cannot make symbols local. clang always does.
LTO_ENDS := $(if $(findstring clang,$(CC)),,-flinker-output=nolto-rel)
# Applications are linked with the API and with what it needs, without libcrypto. The static library
# is one object that exports only the public names, so that no other name can collide with an
# application's.
$(B)/lib/libdeferred.a: $(API_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,AR)$(CC) $(CFLAGS) $(if $(findstring -flto,$(CFLAGS)),$(LTO_ENDS)) -nostdlib -r \
			-o $(B)/obj/libdeferred.o $^ && \
		$(OBJCOPY) --localize-hidden $(if $(SANITIZE),--localize-symbol=dl_iterate_phdr) \
			$(B)/obj/libdeferred.o && \
		rm -f $@ && $(AR) rcs $@ $(B)/obj/libdeferred.o
$(B)/lib/libdeferred.so: $(API_OBJ) $(B)/obj/internal.a lib/libdeferred.map
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared -Wl,-z,nodelete -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libdeferred.map \
		$(if $(SANITIZE),,-Wl,--no-undefined) -o $@ $(API_OBJ) $(B)/obj/internal.a $(PKG_LIBS) -ldl -lpthread
	@ln -sf libdeferred.so $(@D)/$(SONAME)

$(COMMANDS:%=$(B)/bin/%): $(B)/obj/gen/version.o
$(B)/bin/check_deferred: $(CHECK_DEFERRED_OBJ) $(B)/obj/http.a $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) -lssl $(CRYPTO_LIBS) -ldl -lpthread
$(B)/bin/deferred: $(DEFERRED_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(CRYPTO_LIBS) $(CURL_LIBS) -ldl -lpthread
$(B)/bin/deferred_http: $(HTTP_OBJ) $(B)/obj/http.a $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(HTTP_LIBS) -ldl -lpthread
$(B)/bin/deferred_web: $(WEB_OBJ) $(B)/obj/http.a $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(PKG_LIBS) $(HTTP_LIBS) -ldl -lpthread
# The program contains the assets of its pages, compressed. Their names change with their content.
WEB_ASSETS := $(wildcard bin/deferred_web/assets/*)
$(B)/gen/web_assets.h: $(WEB_ASSETS)
	@mkdir -p $(B)/gen/web
	$(call say,GZ)for file in $(WEB_ASSETS); do \
		name=$${file##*/}; id=$$(echo $$name | tr . _); gzip -9n < $$file > $(B)/gen/web/$$id.gz || exit; \
		echo "#define ASSET_$$id \"/$${name%.*}-$$(sha256sum < $$file | cut -c1-12).$${name##*.}\""; \
	done > $@.tmp && mv $@.tmp $@
# The runner has no database connection, and is not linked with libpq.
$(B)/bin/deferred_runner: $(RUNNER_OBJ) $(B)/obj/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -rdynamic -o $@ $^ -ljansson -ldl
# It reads files that nobody has checked, so it contains nothing else of ours.
$(B)/bin/deferred_backtrace: $(BACKTRACE_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -o $@ $^ $(DW_LIBS)

$(B)/completion/bash/%: $(B)/bin/% bin/completion.awk
	@mkdir -p $(@D)
	$(call say,AWK)$< --describe > $@.tmp && awk -v shell=bash -f bin/completion.awk $@.tmp > $@ && rm $@.tmp
$(B)/completion/zsh/_%: $(B)/bin/% bin/completion.awk
	@mkdir -p $(@D)
	$(call say,AWK)$< --describe > $@.tmp && awk -v shell=zsh -f bin/completion.awk $@.tmp > $@ && rm $@.tmp

# A plugin is the file lib/plugins/NAME.c or all files of the folder lib/plugins/NAME.
PLUGIN_LIBS_send_mail = $(CURL_LIBS)
PLUGIN_LIBS_http = $(CURL_LIBS) $(CRYPTO_LIBS) -Wl,-z,nodelete # its resolver may still run
PLUGIN_PARTS_sample = port/beneath
PLUGIN_PARTS_send_mail = port/beneath port/secret_file base/mail_rules base/text/base64
PLUGIN_PARTS_http = port/secret_file base/span $(addprefix base/text/,base64 utf8 visible)
$(foreach name,$(PLUGIN_NAMES),$(eval $(B)/plugins/$(name).so: $(PLUGIN_PARTS_$(name):%=$(B)/obj/lib/%.o) \
	$(patsubst %.c,$(B)/obj/%.o,$(wildcard lib/plugins/$(name).c lib/plugins/$(name)/*.c))))
$(B)/plugins/%.so:
	@mkdir -p $(@D)
	$(call say,LD)$(LINK) -shared -o $@ $(filter %.o,$^) $(PLUGIN_LIBS_$*) -ljansson

# Where nothing was said about jobs at a time, as many as there are processors.
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
# A target that installs packages does the rest in a second make, which asks pkg-config again.
MAKE_AGAIN = $(MAKE) --no-print-directory $(PARALLEL)

MAN_PAGES := $(wildcard lib/*.[1-8] bin/*/*.[1-8] cron/*.[1-8] docs/man/*.[1-8])
.PHONY: site clean
site: deps-check
	@$(PYTHON) -B docs/site/site.py build/site && echo build/site/index.html
clean: pg-stop
	rm -rf build

include tests/tests.mk tests/bench/bench.mk cron/packaging.mk
-include $(wildcard $(B)/obj/*/*.d $(B)/obj/*/*/*.d $(B)/obj/*/*/*/*.d)
