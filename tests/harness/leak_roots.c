/* SPDX-License-Identifier: MIT */
/*
 * leak_roots - linked into what is built with the address sanitizer: LeakSanitizer need not look through the
 * sanitizers' own memory.
 *
 * At the end of each process it looks for pointers in all that a program or library may write to. The tables of libasan
 * and libubsan themselves are 12 MB of that, never touched and so 3,000 page faults: most of what a short process cost.
 * What is held by nothing but these tables is now a leak; so this finds no leak less.
 *
 * It asks by dl_iterate_phdr(), and a program's own comes before libc's.
 */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

typedef int visit_fn(struct dl_phdr_info *info, size_t size, void *data);

__attribute__((visibility("default"))) int dl_iterate_phdr(visit_fn *fn, void *data);

struct visit {
	visit_fn *fn;
	void *data;
};

/* With the tables as long as the file has something for them. */
static int visit_without_tables(struct visit *visit, const struct dl_phdr_info *info, size_t size)
{
	ElfW(Phdr) headers[32];
	struct dl_phdr_info shown = *info;

	if (info->dlpi_phnum > sizeof headers / sizeof *headers)
		return visit->fn(&shown, size, visit->data);
	memcpy(headers, info->dlpi_phdr, info->dlpi_phnum * sizeof *headers);
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_W))
			headers[i].p_memsz = headers[i].p_filesz;
	shown.dlpi_phdr = headers;
	return visit->fn(&shown, size, visit->data);
}

static int visit_one(struct dl_phdr_info *info, size_t size, void *data)
{
	struct visit *visit = data;

	if (strstr(info->dlpi_name, "/libasan.so") || strstr(info->dlpi_name, "/libubsan.so"))
		return visit_without_tables(visit, info, size);
	return visit->fn(info, size, visit->data);
}

int dl_iterate_phdr(visit_fn *fn, void *data)
{
	static int (*of_libc)(visit_fn * fn, void *data);
	struct visit visit = { fn, data };

	/* First by the sanitizer's start, long before threads and the end. */
	if (!of_libc)
		of_libc = (int (*)(visit_fn *, void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return of_libc(visit_one, &visit);
}
