/* SPDX-License-Identifier: MIT */
#include "port/secret_file.h"

#include <errno.h>
#include <string.h>

bool secret_file_ok(const struct stat *st)
{
	return (st->st_mode & (st->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) == 0;
}

FILE *secret_file_open(const char *path, const char *setting, char *why, size_t why_size)
{
	FILE *f = fopen(path, "re");
	struct stat st;

	if (!f) {
		snprintf(why, why_size, "cannot read %s '%.300s': %s; hint: let the user of functions read it", setting,
			 path, strerror(errno));
	} else if (fstat(fileno(f), &st) < 0 || !secret_file_ok(&st)) {
		snprintf(why, why_size, "%s '%.300s' " SECRET_FILE_WRONG "; hint: " SECRET_FILE_HINT, setting, path,
			 (unsigned int)st.st_mode & 07777);
		fclose(f);
		f = NULL;
	}
	return f;
}

/* SCHEME://USER:PASSWORD@HOST; libpq takes a "?" in front of the "@" for a part of the password. */
static bool in_uri(const char *text)
{
	const char *begin = strstr(text, "://"), *end = begin ? begin + 3 + strcspn(begin + 3, "/@") : NULL;

	return end && *end == '@' && memchr(begin + 3, ':', (size_t)(end - begin - 3));
}

bool secret_in_conninfo(const char *conninfo)
{
	static const char word[] = "password";

	/* In doubt it does: that of a client's key, sslpassword, counts as well. */
	for (const char *p = conninfo; (p = strstr(p, word)); p += sizeof(word) - 1)
		if (p[sizeof(word) - 1 + strspn(p + sizeof(word) - 1, " \t\r\n")] == '=')
			return true;
	return in_uri(conninfo);
}

void secret_hide_argument(char *conninfo)
{
	if (secret_in_conninfo(conninfo))
		memset(conninfo, 'x', strlen(conninfo));
}
