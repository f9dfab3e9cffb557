/* SPDX-License-Identifier: MIT */
#include "backtrace.h"

#ifdef HAVE_LIBDW

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Debug information that lies in a file of its own is found where distributions put it. There is no environment, so no
 * server is asked. */
int source_find(int fd, uint64_t address, char file[SOURCE_SIZE], int *line)
{
	static const Dwfl_Callbacks callbacks = { .find_debuginfo = dwfl_standard_find_debuginfo,
						  .section_address = dwfl_offline_section_address };
	Dwfl *dwfl = dwfl_begin(&callbacks);
	Dwfl_Module *module = NULL;
	Dwfl_Line *at = NULL;
	const char *name = NULL, *slash;
	GElf_Addr bias = 0;
	int own = dup(fd);

	/* The module takes the descriptor over, if there is one. */
	if (dwfl && own >= 0)
		module = dwfl_report_elf(dwfl, "object", "object", own, 0, false);
	if (!module && own >= 0)
		close(own);
	if (module && dwfl_report_end(dwfl, NULL, NULL) == 0 && dwfl_module_getelf(module, &bias))
		at = dwfl_module_getsrc(module, address + bias);
	if (at)
		name = dwfl_lineinfo(at, NULL, line, NULL, NULL, NULL);
	if (name) {
		slash = strrchr(name, '/');
		snprintf(file, SOURCE_SIZE, "%s", slash ? slash + 1 : name);
	}
	dwfl_end(dwfl);
	return name && *line > 0 ? 0 : -1;
}

#else

int source_find(int fd, uint64_t address, char file[SOURCE_SIZE], int *line)
{
	(void)fd, (void)address, (void)file, (void)line;
	return -1;
}

#endif
