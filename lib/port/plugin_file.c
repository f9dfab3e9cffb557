/* SPDX-License-Identifier: MIT */
#include "port/plugin_state.h"

#include "base/job.h"
#include "base/text/names.h"
#include "port/trusted.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Members that version 1 of the ABI has; a plugin made with a newer header has more. */
#define PLUGIN_V1_SIZE (offsetof(struct deferred_plugin, function_size) + sizeof(uint32_t))
#define FUNCTION_V1_SIZE (offsetof(struct deferred_function, aliases) + sizeof(void *))

#define FUNCTIONS_MAX 10000

/* A plugin that is being written in place is complete within this many looks at it. */
#define COPY_TRIES 10
#define COPY_AGAIN_MS 20
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

bool plugin_name_ok(const char *name)
{
	return names_is_function(name) && !strchr(name, '.');
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

/* The exported object, if it is in the file itself. dlsym() also searches the libraries that the file needs. */
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
		error_set(err, PLUGIN_UNFIT, "plugin", "it is not a plugin: it does not export deferred_plugin");
		error_hint(err, "define the table with DEFERRED_PLUGIN(), or move the file elsewhere");
		return PLUGIN_UNFIT;
	}
	if (table->abi != DEFERRED_PLUGIN_ABI) {
		error_set(err, PLUGIN_UNFIT, "plugin", "made for plugin ABI %u, this program has %u", table->abi,
			  DEFERRED_PLUGIN_ABI);
		error_hint(err, "build it with the deferred_plugin.h of this version");
		return PLUGIN_UNFIT;
	}
	if (table->size < PLUGIN_V1_SIZE || table->function_size < FUNCTION_V1_SIZE ||
	    table->function_size % _Alignof(struct deferred_function)) {
		error_set(err, PLUGIN_UNFIT, "plugin", "its table has a size no version had (%u, functions %u)",
			  table->size, table->function_size);
		error_hint(err, "define the table with DEFERRED_PLUGIN()");
		return PLUGIN_UNFIT;
	}
	if (!plugin_name_ok(table->name) || !version_ok(table->version))
		return error_set(err, PLUGIN_UNFIT, "plugin",
				 "its %s is invalid\ngive DEFERRED_PLUGIN() a name of letters and digits, "
				 "and a version",
				 plugin_name_ok(table->name) ? "version" : "name");
	if (table->functions_len > FUNCTIONS_MAX || (table->functions_len && !table->functions))
		return error_set(err, PLUGIN_UNFIT, "plugin",
				 "its table cannot have %u functions\ndefine the table with DEFERRED_PLUGIN()",
				 table->functions_len);
	return 0;
}

void plugin_file_free(struct plugin_file *f)
{
	if (!f)
		return;
	if (f->handle)
		dlclose(f->handle);
	if (f->fd >= 0)
		close(f->fd);
	free(f->functions);
	free(f->title);
	free(f->path);
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
		if (!names_is_function(pf->fn.name))
			return error_set(err, PLUGIN_UNFIT, "plugin",
					 "function %zu: name '%.150s' is invalid\n" JOB_FUNCTION_NAMES, i,
					 pf->fn.name ? pf->fn.name : "");
		if (!pf->fn.run && !pf->fn.run_many)
			return error_set(err, PLUGIN_UNFIT, "plugin",
					 "function '%s' has no code\nset .run or .run_many in the table", pf->fn.name);
		if (pf->fn.batch < 0 || pf->fn.batch > DEFERRED_BATCH_MAX || pf->fn.batch_wait_ms < 0 ||
		    pf->fn.batch_wait_ms > DEFERRED_BATCH_WAIT_MAX_MS)
			return error_set(err, PLUGIN_UNFIT, "plugin",
					 "function '%s': batch %d or batch_wait_ms %d is out of range\n"
					 "use batch 1 to %d (0: 100), and batch_wait_ms 0 to %d",
					 pf->fn.name, pf->fn.batch, pf->fn.batch_wait_ms, DEFERRED_BATCH_MAX,
					 DEFERRED_BATCH_WAIT_MAX_MS);
		for (const char *const *a = pf->fn.aliases; a && *a; a++)
			if (!names_is_function(*a))
				return error_set(err, PLUGIN_UNFIT, "plugin",
						 "alias '%.150s' of function '%s' is invalid\n" JOB_FUNCTION_NAMES, *a,
						 pf->fn.name);
	}
	f->len = table->functions_len;
	return 0;
}

int plugin_file_load(struct plugin_file *f, struct deferred_error *err)
{
	const struct deferred_plugin *table;
	struct build_id id = { 0 };
	struct link_map *map = NULL;
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	f->handle = dlopen(f->path ? f->path : path, RTLD_NOW | RTLD_LOCAL);
	if (!f->handle) {
		const char *why = dlerror();

		if (strncmp(why, path, strlen(path)) == 0)
			why += strlen(path) + strspn(why + strlen(path), ": ");
		error_set(err, PLUGIN_UNFIT, "plugin", "cannot be loaded: %.300s", why);
		error_hint(err,
			   "run ldd -r on the file to see what is missing; move a file that is not a plugin elsewhere");
		return PLUGIN_UNFIT;
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

bool plugin_file_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Linux before 6.3 does not know that flag. A mapping of it can be executed in spite of the flag. */
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
	return at == st->st_size && plugin_file_same(st, &after);
}

/*
 * Load a copy in memory, which nobody can change. A mapped file that is overwritten or cut off would kill every process
 * that runs code of it. A file that must not be executed where it is, is not executed from memory either.
 */
static int copy_file(struct plugin_file *f, int from, struct deferred_error *err)
{
	struct statvfs fs;
	int whole = 0;

	if (fstatvfs(from, &fs) == 0 && (fs.f_flag & ST_NOEXEC))
		return error_set(
			err, PLUGIN_UNFIT, "plugin",
			"it is on a file system that is mounted noexec\ninstall it elsewhere, or mount with exec");
	f->fd = new_memory(f->file);
	for (int i = 0; i < COPY_TRIES && f->fd >= 0 && whole == 0; i++) {
		if (i > 0)
			poll(NULL, 0, COPY_AGAIN_MS);
		whole = copy_once(from, f->fd, &f->st);
	}
	if (f->fd < 0 || whole < 0)
		return error_errno(
			err, PLUGIN_UNFIT, "plugin",
			"cannot be copied into memory\nfree memory, or read the file to see whether its disk fails");
	if (!whole) {
		error_set(err, PLUGIN_UNFIT, "plugin", "somebody is writing it");
		error_hint(err, "install a plugin under another name and rename it, as install(1) does");
		return PLUGIN_UNFIT;
	}
	fcntl(f->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return 0;
}

int plugin_file_open(struct plugin_set *set, const char *file, unsigned int owner_uid, struct deferred_error *err)
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
		rc = error_errno(err, PLUGIN_UNFIT, "plugin", "cannot be opened");
		if (errno == ELOOP)
			error_hint(err, "it is a symbolic link: put the file itself there");
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = error_set(err, PLUGIN_UNFIT, "plugin",
			       "it is not a regular file\nreplace it with the plugin, or remove it");
		goto out;
	}
	rc = trusted_check_owner(from, &st, owner_uid, false, err);
	if (rc == 0)
		rc = copy_file(f, from, err);
out:
	if (from >= 0)
		close(from);
	if (rc == 0)
		set->files[set->files_len++] = f;
	else
		plugin_file_free(f);
	return rc;
}
