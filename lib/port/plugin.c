/* SPDX-License-Identifier: MIT */
#include "port/plugin.h"

#include "base/job.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Members that version 1 of the ABI has; a plugin made with a newer header has more. */
#define PLUGIN_V1_SIZE (offsetof(struct deferred_plugin, function_size) + sizeof(uint32_t))
#define FUNCTION_V1_SIZE (offsetof(struct deferred_function, aliases) + sizeof(void *))

#define NAME_MAX_LEN 127
#define FUNCTIONS_MAX 10000
#define LINKS_MAX 16

/* Who writes a plugin in place is through with it within so many looks at it. */
#define COPY_TRIES 10
#define COPY_AGAIN_MS 20
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* Positive, so that it cannot be taken for a DEFERRED_E... code: the file is no plugin of ours. */
#define UNFIT 1

struct plugin_file {
	char *file;     /* name in the folder */
	char *title;    /* "NAME VERSION BUILDID" */
	char *name;     /* of the plugin */
	int fd;         /* our copy; open as long as the object is loaded: glibc tells objects apart by path first */
	struct stat st; /* what it was copied from, or what has been told of it since */
	void *handle;   /* NULL: not loaded yet */
	struct plugin_function *functions;
	size_t len;
};

struct plugin_name {
	char *name;
	const struct plugin_file *file;
	const struct plugin_function *fn;
};

struct plugin_set {
	int dir_fd;
	struct plugin_file **files;
	size_t files_len;
	struct plugin_name *names; /* sorted once all files are loaded */
	size_t names_len, names_cap;
	struct plugin_clash {
		char *name, *text;
	} * clashes; /* names that more than one function has */
	size_t clashes_len;
};

/* ---- whom to trust ---------------------------------------------------------------------------- */

/* The path an open descriptor stands for, to tell people. */
static const char *fd_path(int fd, char path[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return path;
}

/*
 * Refuse what somebody else could have written. In a sticky folder others cannot replace what is ours,
 * so it may lie above the plugin folder, but not be it. The mode of a link means nothing.
 */
static int check_owner(int fd, const struct stat *st, unsigned int owner_uid, bool sticky_ok,
		       struct deferred_error *err)
{
	char path[PATH_MAX];

	if (st->st_uid != 0 && st->st_uid != owner_uid) {
		error_set(err, DEFERRED_EPLUGIN, "plugin", "'%.300s' belongs to user %u, not to root or user %u",
			  fd_path(fd, path), (unsigned int)st->st_uid, owner_uid);
		error_hint(err, "chown root \"%.200s\"", path);
		return DEFERRED_EPLUGIN;
	}
	if (S_ISLNK(st->st_mode) || (sticky_ok && (st->st_mode & S_ISVTX)))
		return 0;
	if (st->st_mode & (S_IWGRP | S_IWOTH)) {
		error_set(err, DEFERRED_EPLUGIN, "plugin", "'%.300s' is writable by others (mode %04o)",
			  fd_path(fd, path), (unsigned int)st->st_mode & 07777);
		error_hint(err, "chmod go-w \"%.200s\"", path);
		return DEFERRED_EPLUGIN;
	}
	return 0;
}

/* Put the target of the link `fd` in front of what is left of the path. */
static int expand_link(int fd, char rest[PATH_MAX], const char *tail)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target));

	if (n < 0)
		return -1;
	if ((size_t)n + 1 + strlen(tail) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memmove(rest + n + 1, tail, strlen(tail) + 1);
	memcpy(rest, target, (size_t)n);
	rest[n] = '/';
	return 0;
}

/*
 * Open what is at the path component by component. Each step is made from a descriptor whose folder nobody else
 * can change, so no component can be exchanged between the check and the use.
 * Returns 0, DEFERRED_EPLUGIN, or DEFERRED_ESYSTEM with errno and without err: it cannot be opened.
 */
static int open_path(const char *path, unsigned int owner_uid, int *out, struct deferred_error *err)
{
	char rest[PATH_MAX] = "", name[NAME_MAX + 1];
	const char *p = rest;
	struct stat st;
	int fd = -1, next = -1, links = 0, rc = DEFERRED_ESYSTEM, failure = 0;

	if (path[0] != '/' && !getcwd(rest, sizeof(rest)))
		goto fail;
	if (strlen(rest) + 1 + strlen(path) >= sizeof(rest)) {
		errno = ENAMETOOLONG;
		goto fail;
	}
	strcat(rest, "/");
	strcat(rest, path);
	if ((fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		goto fail;
	for (;;) {
		size_t n;

		p += strspn(p, "/");
		if (fstat(fd, &st) < 0)
			goto fail;
		if ((rc = check_owner(fd, &st, owner_uid, *p != '\0', err)) < 0)
			goto out;
		rc = DEFERRED_ESYSTEM;
		if (*p == '\0')
			break;
		n = strcspn(p, "/");
		if (n >= sizeof(name)) {
			errno = ENAMETOOLONG;
			goto fail;
		}
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		if ((next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0 || fstat(next, &st) < 0)
			goto fail;
		if (S_ISLNK(st.st_mode)) {
			if ((rc = check_owner(next, &st, owner_uid, false, err)) < 0)
				goto out;
			rc = DEFERRED_ESYSTEM;
			if (++links > LINKS_MAX) {
				errno = ELOOP;
				goto fail;
			}
			if (expand_link(next, rest, p) < 0)
				goto fail;
			close(next);
			p = rest;
			next = openat(fd, rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
			if (next < 0)
				goto fail;
		}
		close(fd);
		fd = next;
		next = -1;
	}
	*out = fd;
	return 0;
fail:
	failure = errno;
out:
	if (next >= 0)
		close(next);
	if (fd >= 0)
		close(fd);
	errno = failure;
	return rc;
}

static int open_dir(const char *dir, unsigned int owner_uid, int *dir_fd, struct deferred_error *err)
{
	int fd = -1, rc = open_path(dir, owner_uid, &fd, err);

	*dir_fd = rc == 0 ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (rc != DEFERRED_EPLUGIN && *dir_fd < 0) {
		rc = error_errno(err, DEFERRED_EPLUGIN, "plugin", "cannot open plugin folder '%.300s'", dir);
		error_hint(err, "set plugin_dir to the folder that holds the plugins");
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

int plugin_command_check(const char *path, unsigned int owner_uid, struct deferred_error *err)
{
	int fd = -1, rc = open_path(path, owner_uid, &fd, err);

	if (fd >= 0)
		close(fd);
	return rc == DEFERRED_ESYSTEM ? 0 : rc;
}

int plugin_dir_check(const char *dir, unsigned int owner_uid, struct deferred_error *err)
{
	int fd, rc;

	if ((rc = open_dir(dir, owner_uid, &fd, err)) == 0)
		close(fd);
	return rc;
}

static char default_dir[PATH_MAX];

static void find_default_dir(void)
{
	/* In the build tree, in an installation that was moved, beside an installed library. */
	static const char *const places[] = { "../plugins", "../lib/deferred/plugins", "deferred/plugins" };
	char object[PATH_MAX], file[2 * PATH_MAX], *slash;
	struct link_map *map = NULL;
	Dl_info info;

	if (dladdr1((void *)plugin_default_dir, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
	    realpath(map->l_name[0] ? map->l_name : "/proc/self/exe", object) && (slash = strrchr(object, '/'))) {
		*slash = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			/* Another project may have a folder of that name; ours has this file. */
			snprintf(file, sizeof(file), "%s/%s/send_mail.so", object, places[i]);
			if (access(file, F_OK) == 0 && realpath(file, default_dir)) {
				*strrchr(default_dir, '/') = '\0';
				return;
			}
		}
	}
	snprintf(default_dir, sizeof(default_dir), "%s", DEFERRED_PLUGINDIR);
}

const char *plugin_default_dir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_default_dir);
	return default_dir;
}

/* ---- one file --------------------------------------------------------------------------------- */

/* [A-Za-z_][A-Za-z0-9_]*, at most NAME_MAX_LEN bytes; with dots where `dots`. */
static bool name_ok(const char *name, bool dots)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.";
	size_t first = sizeof(letters) - 1 - 11, all = sizeof(letters) - 1 - (dots ? 0 : 1);
	size_t len = name ? strlen(name) : 0;

	if (len == 0 || len > NAME_MAX_LEN || !memchr(letters, name[0], first))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!memchr(letters, name[i], all))
			return false;
	return true;
}

bool plugin_function_name_ok(const char *name)
{
	return name_ok(name, true);
}

/* The version goes into the log as it is. */
static bool version_ok(const char *version)
{
	size_t len = version ? strlen(version) : 0;

	if (len == 0 || len > 63)
		return false;
	for (size_t i = 0; i < len; i++)
		if (version[i] <= ' ' || version[i] > '~')
			return false;
	return true;
}

struct build_id {
	ElfW(Addr) base;
	char hex[9]; /* first 8 digits, "" if there is none */
};

static int find_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
	struct build_id *id = data;

	(void)size;
	if (info->dlpi_addr != id->base)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr), *end = p + ph->p_memsz;
		size_t align = ph->p_align == 8 ? 8 : 4;

		if (ph->p_type != PT_NOTE)
			continue;
		while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const void *)p;
			const char *name = p + sizeof(*note);
			size_t desc_at = (sizeof(*note) + note->n_namesz + align - 1) & ~(align - 1);
			size_t whole = (desc_at + note->n_descsz + align - 1) & ~(align - 1);

			if (whole > (size_t)(end - p))
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
			    note->n_descsz >= 4) {
				const unsigned char *d = (const void *)(p + desc_at);

				snprintf(id->hex, sizeof(id->hex), "%02x%02x%02x%02x", d[0], d[1], d[2], d[3]);
				return 1;
			}
			p += whole;
		}
	}
	return 1;
}

/* The exported object, if it lies in the file itself: dlsym() also looks through what the file depends on. */
static const struct deferred_plugin *find_table(void *handle, struct link_map **map)
{
	struct link_map *found = NULL;
	void *symbol = dlsym(handle, "deferred_plugin");
	Dl_info info;

	if (!symbol || dlinfo(handle, RTLD_DI_LINKMAP, map) != 0 ||
	    !dladdr1(symbol, &info, (void **)&found, RTLD_DL_LINKMAP) || found != *map)
		return NULL;
	return symbol;
}

static int check_table(const struct deferred_plugin *table, struct deferred_error *err)
{
	if (!table) {
		error_set(err, UNFIT, "plugin", "it is not a plugin: it does not export deferred_plugin");
		error_hint(err, "define the table with DEFERRED_PLUGIN(), or move the file elsewhere");
		return UNFIT;
	}
	if (table->abi != DEFERRED_PLUGIN_ABI) {
		error_set(err, UNFIT, "plugin", "made for plugin ABI %u, this program has %u", table->abi,
			  DEFERRED_PLUGIN_ABI);
		error_hint(err, "build it with the deferred_plugin.h of this version");
		return UNFIT;
	}
	if (table->size < PLUGIN_V1_SIZE || table->function_size < FUNCTION_V1_SIZE ||
	    table->function_size % _Alignof(struct deferred_function)) {
		error_set(err, UNFIT, "plugin", "its table has a size no version had (%u, functions %u)", table->size,
			  table->function_size);
		error_hint(err, "define the table with DEFERRED_PLUGIN()");
		return UNFIT;
	}
	if (!name_ok(table->name, false) || !version_ok(table->version))
		return error_set(err, UNFIT, "plugin",
				 "its name or version is invalid\ngive DEFERRED_PLUGIN() a name of letters and digits, "
				 "and a version");
	if (table->functions_len > FUNCTIONS_MAX || (table->functions_len && !table->functions))
		return error_set(err, UNFIT, "plugin",
				 "its table cannot have %u functions\ndefine the table with DEFERRED_PLUGIN()",
				 table->functions_len);
	return 0;
}

static void file_free(struct plugin_file *f)
{
	if (!f)
		return;
	if (f->handle)
		dlclose(f->handle);
	if (f->fd >= 0)
		close(f->fd);
	free(f->functions);
	free(f->title);
	free(f->name);
	free(f->file);
	free(f);
}

static int copy_functions(struct plugin_file *f, const struct deferred_plugin *table, struct deferred_error *err)
{
	size_t each = table->function_size;

	if (each > sizeof(struct deferred_function))
		each = sizeof(struct deferred_function);
	f->functions = calloc(table->functions_len + 1, sizeof(*f->functions));
	if (!f->functions)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	for (size_t i = 0; i < table->functions_len; i++) {
		struct plugin_function *pf = &f->functions[i];

		memcpy(&pf->fn, (const char *)table->functions + i * table->function_size, each);
		pf->plugin = f->title;
		pf->file = f->file;
		if (!plugin_function_name_ok(pf->fn.name))
			return error_set(err, UNFIT, "plugin",
					 "function %zu: name '%.150s' is invalid\n" JOB_FUNCTION_NAMES, i,
					 pf->fn.name ? pf->fn.name : "");
		if (!pf->fn.run)
			return error_set(err, UNFIT, "plugin", "function '%s' has no code\nset .run in the table",
					 pf->fn.name);
		for (const char *const *a = pf->fn.aliases; a && *a; a++)
			if (!plugin_function_name_ok(*a))
				return error_set(err, UNFIT, "plugin",
						 "alias '%.150s' of function '%s' is invalid\n" JOB_FUNCTION_NAMES, *a,
						 pf->fn.name);
	}
	f->len = table->functions_len;
	return 0;
}

/* Load by the descriptor of the copy. */
static int load_object(struct plugin_file *f, struct deferred_error *err)
{
	const struct deferred_plugin *table;
	struct build_id id = { 0 };
	struct link_map *map = NULL;
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	f->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!f->handle) {
		const char *why = dlerror();

		if (strncmp(why, path, strlen(path)) == 0)
			why += strlen(path) + strspn(why + strlen(path), ": ");
		error_set(err, UNFIT, "plugin", "cannot be loaded: %.300s", why);
		error_hint(err,
			   "run ldd -r on the file to see what is missing; move a file that is not a plugin elsewhere");
		return UNFIT;
	}
	table = find_table(f->handle, &map);
	if ((rc = check_table(table, err)) != 0)
		return rc;
	id.base = map->l_addr;
	dl_iterate_phdr(find_build_id, &id);
	f->name = strdup(table->name);
	if (!f->name ||
	    asprintf(&f->title, "%s %s%s%s", table->name, table->version, id.hex[0] ? " " : "", id.hex) < 0) {
		f->title = NULL;
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	}
	return copy_functions(f, table, err);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Linux before 6.3 does not know that flag. What is mapped may be executed all the same. */
static int new_memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

/* All of it, as it is now. Returns whether nobody wrote meanwhile; -1 with errno: it cannot be read. */
static int copy_once(int from, int to, struct stat *st)
{
	struct stat after;
	off_t at = 0;
	ssize_t n = 1;

	if (fstat(from, st) < 0 || ftruncate(to, 0) < 0 || lseek(to, 0, SEEK_SET) < 0)
		return -1;
	while (at < st->st_size && (n = sendfile(to, from, &at, (size_t)(st->st_size - at))) > 0)
		;
	if (n < 0 || fstat(from, &after) < 0)
		return -1;
	return at == st->st_size && same_file(st, &after);
}

/*
 * What is loaded is a copy in memory, which nobody can change: a file that is written over, or cut off, while it is
 * mapped takes every process that runs code of it down. What must not be executed where it lies is not executed here
 * either.
 */
static int copy_file(struct plugin_file *f, int from, struct deferred_error *err)
{
	struct statvfs fs;
	int whole = 0;

	if (fstatvfs(from, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
		return error_set(
			err, UNFIT, "plugin",
			"it is on a file system that is mounted noexec\ninstall it elsewhere, or mount with exec");
	f->fd = new_memory(f->file);
	for (int i = 0; i < COPY_TRIES && f->fd >= 0 && whole == 0; i++) {
		if (i > 0)
			poll(NULL, 0, COPY_AGAIN_MS);
		whole = copy_once(from, f->fd, &f->st);
	}
	if (f->fd < 0 || whole < 0)
		return error_errno(
			err, UNFIT, "plugin",
			"cannot be copied into memory\nfree memory, or read the file to see whether its disk fails");
	if (!whole) {
		error_set(err, UNFIT, "plugin", "somebody is writing it");
		error_hint(err, "install a plugin under another name and rename it, as install(1) does");
		return UNFIT;
	}
	fcntl(f->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return 0;
}

/* Returns 0, UNFIT (err says why), DEFERRED_EPLUGIN for its ownership, DEFERRED_ENOMEM. */
static int open_file(struct plugin_set *set, const char *file, unsigned int owner_uid, struct deferred_error *err)
{
	struct plugin_file *f = calloc(1, sizeof(*f)), **files;
	struct stat st;
	int from = -1, rc;

	if (!f)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	f->fd = -1;
	files = realloc(set->files, (set->files_len + 1) * sizeof(struct plugin_file *));
	if (files)
		set->files = files;
	if (!files || !(f->file = strdup(file))) {
		rc = error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
		goto out;
	}
	from = openat(set->dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0) {
		rc = error_errno(err, UNFIT, "plugin", "cannot be opened");
		if (errno == ELOOP)
			error_hint(err, "it is a symbolic link: put the file itself there");
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = error_set(err, UNFIT, "plugin",
			       "it is not a regular file\nreplace it with the plugin, or remove it");
		goto out;
	}
	rc = check_owner(from, &st, owner_uid, false, err);
	if (rc == 0)
		rc = copy_file(f, from, err);
out:
	if (from >= 0)
		close(from);
	if (rc == 0)
		set->files[set->files_len++] = f;
	else
		file_free(f);
	return rc;
}

/* ---- names ------------------------------------------------------------------------------------ */

static int add_name(struct plugin_set *set, const struct plugin_file *f, const struct plugin_function *fn,
		    const char *qualifier, const char *name, struct deferred_error *err)
{
	struct plugin_name *n;

	if (set->names_len == set->names_cap) {
		size_t cap = set->names_cap ? 2 * set->names_cap : 32;
		struct plugin_name *names = realloc(set->names, cap * sizeof(*names));

		if (!names)
			return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
		set->names = names;
		set->names_cap = cap;
	}
	n = &set->names[set->names_len];
	if (asprintf(&n->name, "%s%s%s", qualifier, qualifier[0] ? "." : "", name) < 0)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	n->file = f;
	n->fn = fn;
	set->names_len++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct plugin_name *)a)->name, ((const struct plugin_name *)b)->name);
}

static void clear_names(struct plugin_set *set)
{
	for (size_t i = 0; i < set->names_len; i++)
		free(set->names[i].name);
	set->names_len = 0;
}

static void clear_clashes(struct plugin_set *set)
{
	for (size_t i = 0; i < set->clashes_len; i++) {
		free(set->clashes[i].name);
		free(set->clashes[i].text);
	}
	set->clashes_len = 0;
}

/* Names [from, to) are one name. Returns the first that stands for another function than the first, `to` where there is
 * none. */
static size_t find_rival(const struct plugin_set *set, size_t from, size_t to)
{
	size_t i = from + 1;

	while (i < to && set->names[i].fn == set->names[from].fn)
		i++;
	return i;
}

static int add_clash(struct plugin_set *set, const struct plugin_name *a, const struct plugin_name *b,
		     struct deferred_error *err)
{
	struct plugin_clash *clashes = realloc(set->clashes, (set->clashes_len + 1) * sizeof(*clashes)), *c;

	if (!clashes)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	set->clashes = clashes;
	c = &clashes[set->clashes_len];
	if (asprintf(&c->text, "function '%s' is both in plugin '%.150s' and in plugin '%.150s'", a->name,
		     a->file->file, b->file->file) < 0)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	c->name = strdup(a->name);
	if (!c->name) {
		free(c->text);
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	}
	set->clashes_len++;
	return 0;
}

/* A name that stands for two functions stands for none: neither is what its caller surely meant. */
static int drop_clashes(struct plugin_set *set, struct deferred_error *err)
{
	size_t kept = 0, to;
	int rc = 0;

	for (size_t from = 0; from < set->names_len; from = to) {
		size_t rival;

		for (to = from + 1; to < set->names_len && by_name(&set->names[from], &set->names[to]) == 0;)
			to++;
		rival = find_rival(set, from, to);
		if (rival < to && rc == 0)
			rc = add_clash(set, &set->names[from], &set->names[rival], err);
		for (size_t i = from; i < to; i++) {
			if (rival < to)
				free(set->names[i].name);
			else
				set->names[kept++] = set->names[i];
		}
	}
	set->names_len = kept;
	return rc;
}

/* Make the names searchable. */
static int index_names(struct plugin_set *set, struct deferred_error *err)
{
	int rc = 0;

	clear_names(set);
	clear_clashes(set);
	for (size_t i = 0; i < set->files_len; i++) {
		const struct plugin_file *f = set->files[i];

		for (size_t j = 0; j < f->len && rc == 0; j++) {
			const struct plugin_function *fn = &f->functions[j];

			rc = add_name(set, f, fn, "", fn->fn.name, err);
			if (rc == 0)
				rc = add_name(set, f, fn, f->name, fn->fn.name, err);
			for (const char *const *a = fn->fn.aliases; a && *a && rc == 0; a++)
				rc = add_name(set, f, fn, "", *a, err);
		}
	}
	if (rc < 0 || set->names_len == 0)
		return rc;
	qsort(set->names, set->names_len, sizeof(set->names[0]), by_name);
	return drop_clashes(set, err);
}

const struct plugin_function *plugin_find(const struct plugin_set *set, const char *name)
{
	struct plugin_name key = { .name = (char *)name };
	const struct plugin_name *found;

	if (!set->names_len)
		return NULL;
	found = bsearch(&key, set->names, set->names_len, sizeof(key), by_name);
	return found ? found->fn : NULL;
}

void plugin_each(const struct plugin_set *set,
		 void (*f)(void *data, const char *name, const struct plugin_function *fn), void *data)
{
	for (size_t i = 0; i < set->names_len; i++)
		if (i == 0 || strcmp(set->names[i - 1].name, set->names[i].name) != 0)
			f(data, set->names[i].name, set->names[i].fn);
}

void plugin_each_clash(const struct plugin_set *set, void (*f)(void *data, const char *name, const char *text),
		       void *data)
{
	for (size_t i = 0; i < set->clashes_len; i++)
		f(data, set->clashes[i].name, set->clashes[i].text);
}

/* ---- the folder ------------------------------------------------------------------------------- */

static int is_plugin_file(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return len > 3 && d->d_name[0] != '.' && strcmp(d->d_name + len - 3, ".so") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void report(plugin_refused_fn *refused, void *data, const char *file, const struct deferred_error *why)
{
	char text[sizeof(why->message) + sizeof(why->hint) + 9];

	snprintf(text, sizeof(text), "%s%s%s", why->message, why->hint[0] ? "; hint: " : "", why->hint);
	if (refused)
		refused(data, file, text);
}

/* A set without files. */
static int new_set(struct plugin_set **set, const char *dir, unsigned int owner_uid, struct deferred_error *err)
{
	struct plugin_set *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	s->dir_fd = -1;
	rc = open_dir(dir, owner_uid, &s->dir_fd, err);
	if (rc == 0)
		*set = s;
	else
		plugin_set_free(s);
	return rc;
}

int plugin_open_dir(struct plugin_set **set, const char *dir, unsigned int owner_uid, plugin_refused_fn *refused,
		    void *data, struct deferred_error *err)
{
	struct plugin_set *s = NULL;
	struct dirent **entries = NULL;
	int n = 0, rc;

	if ((rc = new_set(&s, dir, owner_uid, err)) < 0)
		goto out;
	if ((n = scandirat(s->dir_fd, ".", &entries, is_plugin_file, by_bytes)) < 0) {
		rc = error_errno(err, DEFERRED_EPLUGIN, "plugin",
				 "cannot read plugin folder '%.300s'\nmake it readable, or correct plugin_dir", dir);
		goto out;
	}
	for (int i = 0; i < n; i++) {
		const char *file = entries[i]->d_name;
		struct deferred_error why = { 0 };

		rc = open_file(s, file, owner_uid, &why);
		if (rc < 0) {
			if (err)
				*err = why;
			goto out;
		}
		if (rc == UNFIT)
			report(refused, data, file, &why);
	}
	rc = 0;
out:
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	if (rc == 0)
		*set = s;
	else
		plugin_set_free(s);
	return rc;
}

int plugin_load_all(struct plugin_set *set, plugin_loading_fn *loading, plugin_refused_fn *refused, void *data,
		    struct deferred_error *err)
{
	size_t kept = 0;
	int rc = 0;

	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *f = set->files[i];
		struct deferred_error why = { 0 };
		bool wanted = rc == 0 && (!loading || loading(data, f->file));

		if (wanted && (rc = load_object(f, &why)) == UNFIT) {
			report(refused, data, f->file, &why);
			rc = 0;
			wanted = false;
		}
		if (rc < 0 && why.code && err)
			*err = why;
		if (wanted && rc == 0)
			set->files[kept++] = f;
		else
			file_free(f);
	}
	set->files_len = kept;
	return rc < 0 ? rc : index_names(set, err);
}

static int load_unfit(struct deferred_error *err, const char *file, int rc)
{
	if (rc != UNFIT)
		return rc;
	if (err) {
		error_prefix(err, "plugin '%.300s'", file);
		err->code = DEFERRED_EPLUGIN;
	}
	return DEFERRED_EPLUGIN;
}

int plugin_load_file(struct plugin_set *set, const char *file, struct deferred_error *err)
{
	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *f = set->files[i];
		int rc;

		if (strcmp(f->file, file) != 0)
			continue;
		if (f->handle)
			return 0;
		rc = load_object(f, err);
		if (rc == 0)
			return index_names(set, err);
		set->files[i] = set->files[--set->files_len]; /* not to be tried again */
		file_free(f);
		return load_unfit(err, file, rc);
	}
	return error_set(err, DEFERRED_EPLUGIN, "plugin", "plugin '%.300s' does not exist\ninstall it in plugin_dir",
			 file);
}

int plugin_load_one(struct plugin_set **set, const char *dir, const char *name, unsigned int owner_uid,
		    struct deferred_error *err)
{
	struct plugin_set *s = NULL;
	struct deferred_error why = { 0 };
	char file[NAME_MAX_LEN + 4], path[PATH_MAX];
	int rc;

	if (!name_ok(name, false))
		return error_set(err, DEFERRED_EINVAL, "plugin",
				 "plugin name '%.150s' is invalid\nuse letters, digits and '_', and no suffix", name);
	snprintf(file, sizeof(file), "%s.so", name);
	if ((rc = new_set(&s, dir, owner_uid, err)) < 0)
		return rc;
	rc = open_file(s, file, owner_uid, &why);
	if (rc == 0)
		rc = load_object(s->files[0], &why);
	if (rc == 0)
		rc = index_names(s, &why);
	if (rc == 0) {
		*set = s;
		return 0;
	}
	plugin_set_free(s);
	snprintf(path, sizeof(path), "%.150s/%s", dir, file);
	rc = load_unfit(&why, path, rc);
	if (err)
		*err = why;
	return rc;
}

void plugin_each_changed(struct plugin_set *set, void (*f)(void *data, const char *file, bool gone), void *data)
{
	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *file = set->files[i];
		struct stat st = { 0 };
		bool gone = fstatat(set->dir_fd, file->file, &st, AT_SYMLINK_NOFOLLOW) < 0;

		if ((gone && errno != ENOENT) || same_file(&st, &file->st))
			continue;
		file->st = st;
		f(data, file->file, gone);
	}
}

void *plugin_symbol(const struct plugin_set *set, const char *name)
{
	return set->files_len > 0 && set->files[0]->handle ? dlsym(set->files[0]->handle, name) : NULL;
}

void plugin_set_free(struct plugin_set *set)
{
	if (!set)
		return;
	clear_names(set);
	free(set->names);
	clear_clashes(set);
	free(set->clashes);
	for (size_t i = 0; i < set->files_len; i++)
		file_free(set->files[i]);
	free(set->files);
	if (set->dir_fd >= 0)
		close(set->dir_fd);
	free(set);
}
