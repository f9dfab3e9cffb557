# Installation, the source tarball, our Debian packages, and the packages that targets need.
#
# Targets that install and package
#   install          honours DESTDIR, prefix, libdir, mandir, sysconfdir
#   uninstall        removes what install has installed
#   dist             make a source tarball and SHA256SUMS, signed if SIGN_KEY names a key of gpg
#   release-steps    note migrations as released, which are then never edited
#   deb              make Debian packages in build/deb
#   deb-source       prepare the source of these packages in build/deb
#   repo             add them to an apt repository in build/repo, signed with the key SIGN_KEY of gpg
#   check-packages   build, install, upgrade and purge the packages in Debian 12 and 13, or in SUITES

# Debian packages that the targets need
DEPS_BUILD := gcc make pkgconf libc6-dev libpq-dev libjansson-dev libcurl4-openssl-dev \
	libexpat1-dev libssl-dev
DEPS_DEMO := $(DEPS_BUILD) postgresql python3 python3-aiosmtpd cron
DEPS_CHECK := $(DEPS_DEMO) man-db xz-utils valgrind gdb libcmocka-dev libdw-dev g++ perl python3-pytest python3-pytest-xdist \
	python3-psycopg2 python3-psycopg libdbd-pg-perl libcpanel-json-xs-perl php-cli php-pgsql phpunit pgbouncer openssl nginx \
	curl jq zstd zsh mandoc python3-markdown python3-yaml gpg gpg-agent nodejs npm clang-format \
	python3-django php-illuminate-database systemd
DEPS_SCHEDULES := $(DEPS_CHECK) python3-croniter tzdata
DEPS_LINT := $(DEPS_CHECK) clang cppcheck
DEPS_DEB := $(DEPS_BUILD) build-essential dpkg-dev debhelper dh-python python3 libdw-dev libcmocka-dev perl xz-utils
DEPS_REPO := apt-utils gpg gpg-agent
DEPS_PACKAGES := $(DEPS_BUILD) $(DEPS_REPO) postgresql python3-pytest python3-psycopg2 mmdebstrap
.PHONY: deps deps-build deps-demo deps-check deps-schedules deps-lint deps-deb deps-repo deps-packages
deps: deps-lint
deps-build deps-demo deps-check deps-schedules deps-lint deps-deb deps-repo deps-packages: deps-%:
	@tests/harness/deps.sh $(DEPS_$(shell echo $* | tr a-z A-Z))

NAME_VERSION := deferred-$(VERSION)
# $(call sign,HOW,FILE,SIGNATURE)
sign = gpg --quiet --yes --local-user '$(SIGN_KEY)' --digest-algo SHA512 --output $3 $1 $2
# The same files give the same bytes. All times are that of the last commit, or those of the
# tarball.
DIST_XZ := -6
DIST_PLACE := build
DIST_TIME = $(or $(SOURCE_DATE_EPOCH),$(shell $(IN_GIT) && git log -1 --format=%ct || stat -c %Y CHANGELOG.md))
IN_GIT = [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$(CURDIR)" ]
.PHONY: dist deb repo check-packages
dist:
	@mkdir -p $(DIST_PLACE) && new=$$(mktemp -d $(DIST_PLACE)/dist.XXXXXX) && trap "rm -r $$new" EXIT && \
	if $(IN_GIT); then git ls-files; else \
		find . -type f ! -path './build/*' ! -path './build-*' ! -path './.git/*' ! -name '*.pyc' -printf '%P\n'; \
	fi | LC_ALL=C sort > $$new/files && \
	TAR_OPTIONS= tar -c --format=ustar --transform 's,^,$(NAME_VERSION)/,' --owner=root:0 --group=root:0 \
		--mode=u=rwX,go=rX --mtime=@$(DIST_TIME) --files-from=$$new/files -f $$new/$(NAME_VERSION).tar && \
	XZ_OPT= XZ_DEFAULTS= xz -T1 $(DIST_XZ) $$new/$(NAME_VERSION).tar && \
	(cd $$new && sha256sum *.xz > SHA256SUMS) && \
	$(if $(SIGN_KEY),$(call sign,--armor --detach-sign,$$new/SHA256SUMS,$$new/SHA256SUMS.asc),:) && \
	rm -f $(DIST_PLACE)/SHA256SUMS.asc $$new/files && mv $$new/* $(DIST_PLACE)
	@echo $(DIST_PLACE)/$(NAME_VERSION).tar.xz

STEPS := sql/migrations
.PHONY: release-steps
release-steps:
	@cd $(STEPS) && for step in [0-9]*.sql; do grep -q " $$step$$" RELEASED || sha256sum $$step >> RELEASED; done

# Debian's maintainers want a tarball without debian/, so the rule adds that folder to the unpacked
# tarball. DEB_PLACE names another folder than build/deb. DEB_ARGS goes to dpkg-buildpackage.
# Packages for Debian 12 are older than those for Debian 13, so that apt replaces them with the
# system. The changelog has a later entry for each. DEBEMAIL and DEBFULLNAME name the maintainer.
DEB_PLACE ?= build/deb
DEB_VERSION := $(subst -,~,$(VERSION))
DEB_RELEASE := $(shell . /etc/os-release && echo $$VERSION_ID)
DEB_ENTRY = -e '1s/(.*)/($(DEB_VERSION)-1~deb$(DEB_RELEASE)u1)/p' \
	-e '/^ -- /{s/:[0-9]* +/:59 +/;s/^/\n  * Build for Debian $(DEB_RELEASE).\n\n/;s/$$/\n/p;q}'
.PHONY: deb-source
deb-source: dist
	@rm -rf $(DEB_PLACE) && mkdir -p $(DEB_PLACE)
	@cp $(DIST_PLACE)/$(NAME_VERSION).tar.xz $(DEB_PLACE)/deferred_$(DEB_VERSION).orig.tar.xz
	@tar -C $(DEB_PLACE) -xf $(DIST_PLACE)/$(NAME_VERSION).tar.xz
	@cp -r cron/debian $(DEB_PLACE)/$(NAME_VERSION)/debian
	@cd $(DEB_PLACE)/$(NAME_VERSION)/debian && sed -i -e '1s/(.*)/($(DEB_VERSION)-1)/' \
		$(if $(DEBEMAIL),-e 's/^\(Maintainer:\| --\) .*>/\1 $(or $(DEBFULLNAME),deferred) <$(DEBEMAIL)>/') \
		changelog control && \
		$(if $(DEB_RELEASE),sed -n $(DEB_ENTRY) changelog > entry && cat changelog >> entry && mv entry changelog,:)
deb: deps-deb deb-source
	@cd $(DEB_PLACE)/$(NAME_VERSION) && \
		env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS dpkg-buildpackage -us -uc $(DEB_ARGS) > ../build.log 2>&1 || \
		{ tail -40 ../build.log; exit 1; }
	@ls $(DEB_PLACE)/*.deb

# The packages of DEB_PLACE were built on the Debian release SUITE. The repository keeps its own.
REPO_PLACE ?= build/repo
SUITE ?= $(shell . /etc/os-release && echo $$VERSION_CODENAME)
REPO_ARCH = $(shell dpkg --print-architecture)
REPO_FIELDS = Origin=deferred Label=deferred Suite=$(SUITE) Codename=$(SUITE) Components=main Architectures=$(REPO_ARCH)
repo: deps-repo
	$(if $(SIGN_KEY),,$(error SIGN_KEY names no key: make repo SIGN_KEY=ID, which gpg --list-secret-keys shows))
	@mkdir -p $(REPO_PLACE)/pool/$(SUITE) $(REPO_PLACE)/dists/$(SUITE)/main/binary-$(REPO_ARCH)
	@cp $(DEB_PLACE)/*.deb $(REPO_PLACE)/pool/$(SUITE)
	@cd $(REPO_PLACE) && apt-ftparchive packages pool/$(SUITE) > dists/$(SUITE)/main/binary-$(REPO_ARCH)/Packages
	@cd $(REPO_PLACE)/dists/$(SUITE) && rm -f Release InRelease Release.gpg && \
		apt-ftparchive $(REPO_FIELDS:%=-o APT::FTPArchive::Release::%) release . > ../Release.$(SUITE) && \
		mv ../Release.$(SUITE) Release && $(call sign,--clearsign,Release,InRelease) && \
		$(call sign,--armor --detach-sign,Release,Release.gpg)
	@gpg --quiet --yes --output $(REPO_PLACE)/deferred.gpg --export '$(SIGN_KEY)'
	@echo $(REPO_PLACE)

SUITES ?= bookworm trixie
check-packages: deps-packages
	+@$(MAKE_AGAIN) all
	@SUITES="$(SUITES)" $(PYTHON) -m pytest -v --durations=0 -o faulthandler_timeout=0 tests/package/packages.py

INSTALL ?= install
INSTALL_DATA = $(INSTALL) -m 644
PUBLIC_HEADERS := $(wildcard lib/include/*.h)
# The plugin sample is for trials in the tree and for tests. Its function append writes files, so it
# is not installed.
INSTALLED_PLUGINS := $(filter-out %/sample.so,$(PLUGINS))
# The files to which documents link are installed too. Links to samples get the name of their
# folder.
DOCS := $(wildcard *.md) LICENSE $(wildcard docs/*.md docs/*/*.md docs/examples/*/*) \
	$(addprefix tests/demo/pictures/,overview.webp job.webp)
DOC_LINKS = -e 's|](\([./]*\)cron/|](\1examples/|g'
SAMPLES := $(filter-out %.1 %.5 %.8 %/debian %/container %.mk,$(wildcard cron/*)) \
	cron/container/Containerfile $(wildcard cron/container/*.* cron/container/*/*.yaml)
# Samples and man pages name the folders of the default prefix.
NAME_PLACES = -e 's|/usr/local/bin|$(bindir)|g' -e 's|/usr/local/libexec/deferred|$(libexecdir)|g' \
	-e 's|/etc/deferred|$(sysconfdir)/deferred|g'
man_path = $(mandir)/man$(subst .,,$(suffix $1))/$(notdir $1)
INSTALLED = $(COMMANDS:%=$(bindir)/%) $(HELPERS:%=$(libexecdir)/%) \
	$(COMPLETED:%=$(bashdir)/%) $(COMPLETED:%=$(zshdir)/_%) \
	$(libdir)/libdeferred.a $(libdir)/libdeferred.so $(libdir)/$(SONAME) $(libdir)/$(SONAME).$(VERSION) \
	$(libdir)/pkgconfig/libdeferred.pc $(INSTALLED_PLUGINS:$(B)/plugins/%=$(plugindir)/%) \
	$(PUBLIC_HEADERS:lib/include/%=$(includedir)/%) \
	$(foreach page,$(MAN_PAGES),$(call man_path,$(page))) $(SQL:sql/%=$(datadir)/sql/%) \
	$(SAMPLES:cron/%=$(docdir)/examples/%) $(DOCS:%=$(docdir)/%)
# Libraries for programs of users. Nothing is built, and no language is needed.
# Python has a folder for each prefix.
pythondir ?= $(or $(shell $(PYTHON) -c 'import site, sys; print(next((folder for folder in site.getsitepackages() \
	if folder.startswith(sys.argv[1] + "/lib/")), ""))' $(prefix) 2>/dev/null),$(prefix)/lib/python3/dist-packages)
phpdir ?= $(prefix)/share/php
PYTHON_FILES := $(wildcard lib/languages/python/deferred/*.py) lib/languages/python/deferred/py.typed
PHP_FILES := $(wildcard lib/languages/php/src/*.php)
INSTALLED += $(PYTHON_FILES:lib/languages/python/%=$(pythondir)/%)
INSTALLED += $(PHP_FILES:lib/languages/php/src/%=$(phpdir)/Deferred/%)
perldir ?= $(prefix)/lib/site_perl
nodedir ?= $(prefix)/share/nodejs
PERL_FILES := $(wildcard lib/languages/perl/lib/*/*.pm)
NODE_FILES := $(wildcard lib/languages/node/*.js lib/languages/node/*.ts lib/languages/node/package.json)
INSTALLED += $(PERL_FILES:lib/languages/perl/lib/%=$(perldir)/%)
INSTALLED += $(NODE_FILES:lib/languages/node/%=$(nodedir)/deferred-program/%)

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
		-e 's|@includedir@|$(patsubst $(prefix)/%,$${prefix}/%,$(includedir))|' \
		-e 's|@plugindir@|$(plugindir)|' -e 's|@VERSION@|$(VERSION)|' lib/libdeferred.pc.in \
		> $(DESTDIR)$(libdir)/pkgconfig/libdeferred.pc
	chmod 644 $(DESTDIR)$(libdir)/pkgconfig/libdeferred.pc
	$(INSTALL_DATA) $(INSTALLED_PLUGINS) $(DESTDIR)$(plugindir)
	$(INSTALL_DATA) $(PUBLIC_HEADERS) $(DESTDIR)$(includedir)
	$(foreach page,$(MAN_PAGES),$(INSTALL_DATA) $(page) $(DESTDIR)$(call man_path,$(page)) &&) :
	sed -i $(NAME_PLACES) $(foreach page,$(MAN_PAGES),$(DESTDIR)$(call man_path,$(page)))
	$(foreach folder,$(sort $(dir $(SQL))),$(INSTALL_DATA) $(filter $(folder)%,$(SQL)) \
		$(DESTDIR)$(datadir)/$(folder) &&) :
	$(foreach file,$(SAMPLES:cron/%=%),$(INSTALL_DATA) cron/$(file) $(DESTDIR)$(docdir)/examples/$(dir $(file)) &&) :
	sed -i $(NAME_PLACES) $(SAMPLES:cron/%=$(DESTDIR)$(docdir)/examples/%)
	$(foreach file,$(DOCS),$(INSTALL_DATA) $(file) $(DESTDIR)$(docdir)/$(dir $(file)) &&) :
	sed -i $(DOC_LINKS) $(addprefix $(DESTDIR)$(docdir)/,$(filter %.md,$(DOCS)))
	$(INSTALL_DATA) $(PYTHON_FILES) $(DESTDIR)$(pythondir)/deferred
	$(INSTALL_DATA) $(PHP_FILES) $(DESTDIR)$(phpdir)/Deferred
	$(INSTALL_DATA) $(PERL_FILES) $(DESTDIR)$(perldir)/Deferred
	$(INSTALL_DATA) $(NODE_FILES) $(DESTDIR)$(nodedir)/deferred-program
uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	rm -rf $(DESTDIR)$(pythondir)/deferred/__pycache__
	@rmdir -p $(addprefix $(DESTDIR),$(plugindir) $(libexecdir) $(sort $(dir $(SQL:sql/%=$(datadir)/sql/%))) \
		$(sort $(dir $(DOCS:%=$(docdir)/%) $(SAMPLES:cron/%=$(docdir)/examples/%))) $(bashdir) $(zshdir) \
		$(pythondir)/deferred $(phpdir)/Deferred $(perldir)/Deferred $(nodedir)/deferred-program) 2>/dev/null || :
