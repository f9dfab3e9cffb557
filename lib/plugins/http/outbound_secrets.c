/* SPDX-License-Identifier: MIT */
/* The secrets of signatures: http.secrets names a file for each name that params may use. */
#include "outbound.h"

#include "port/secret_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The file of a name in "shop:/etc/deferred/shop.secret, crm:/etc/deferred/crm.secret". */
static bool secret_path(const char *list, const char *name, char path[PATH_MAX])
{
	size_t len, name_len = strlen(name);

	for (; *(list += strspn(list, ", \t")); list += len) {
		len = strcspn(list, ",");
		if (len <= name_len || strncmp(list, name, name_len) != 0 || list[name_len] != ':')
			continue;
		list += name_len + 1;
		list += strspn(list, " \t");
		len = strcspn(list, ",");
		while (len && strchr(" \t", list[len - 1]))
			len--;
		return snprintf(path, PATH_MAX, "%.*s", (int)len, list) < PATH_MAX;
	}
	return false;
}

/* Each line is a secret. Empty lines do not count. */
static int read_secrets(struct outbound *o, FILE *f, const char *path)
{
	char line[WEBHOOK_TEXT_MAX + 2];
	int rc = DEFERRED_OK;

	while (rc == DEFERRED_OK && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!line[0])
			continue;
		if (o->secrets_len == OUTBOUND_SECRETS_MAX)
			rc = outbound_fail(
				o, DEFERRED_UNREADY,
				"http.secrets '%.300s' has more than %d secrets; hint: keep the new one and the "
				"one before",
				path, OUTBOUND_SECRETS_MAX);
		else if (!webhook_secret_read(line, &o->secrets[o->secrets_len++]))
			rc = outbound_fail(
				o, DEFERRED_UNREADY,
				"http.secrets '%.300s' has a line that is not a secret; hint: print one with "
				"echo whsec_$(openssl rand -base64 32)",
				path);
	}
	explicit_bzero(line, sizeof(line));
	if (rc == DEFERRED_OK && !o->secrets_len)
		rc = outbound_fail(o, DEFERRED_UNREADY,
				   "http.secrets '%.300s' has no secret; hint: echo whsec_$(openssl rand -base64 32) "
				   "prints one",
				   path);
	return rc;
}

int outbound_secrets(struct outbound *o, const char *name)
{
	const char *list = outbound_setting(o, "http.secrets");
	char path[PATH_MAX];
	FILE *f;
	int rc;

	if (!*name || name[strcspn(name, ":, \t")] || !list || !secret_path(list, name, path))
		return outbound_fail(
			o, DEFERRED_DEAD,
			"sign: setting 'http.secrets' does not name a secret '%.100s'; hint: add http { secrets "
			"= \"NAME:FILE\" } to the config file",
			name);
	if (!(f = secret_file_open(path, "http.secrets", o->why, sizeof(o->why))))
		return DEFERRED_UNREADY;
	rc = read_secrets(o, f, path);
	fclose(f);
	return rc;
}
