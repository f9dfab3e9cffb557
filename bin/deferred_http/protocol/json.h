/* SPDX-License-Identifier: MIT */
/*
 * json - metadata, policies and service properties as text of the database. It is the only file of this program to
 * include jansson. Read values live in the arena. Others may have written the text, so parts of another shape are
 * ignored.
 */
#ifndef JSON_H
#define JSON_H

#include "http/arena.h"
#include "protocol/sas.h"

struct json_pair {
	const char *name, *value;
};

/* An object of strings. NULL: a text is not UTF-8. free() it. */
char *json_write_pairs(const struct json_pair *pairs, size_t n);
struct json_pair *json_read_pairs(struct arena *arena, const char *text, size_t *n); /* text NULL: none */

/* Stored access policies: a list of objects with id, start, expiry, permission. */
#define JSON_POLICIES_MAX 5
char *json_write_policies(const struct sas_policy *policies, size_t n);
size_t json_read_policies(struct arena *arena, const char *text, struct sas_policy policies[JSON_POLICIES_MAX]);

/* Service properties: sections of settings, each a list of pairs, and the CORS rules. */
#define JSON_CORS_MAX 5
struct cors_rule {
	const char *origins, *methods, *allowed_headers, *exposed_headers;
	const char *max_age;
};
struct service_properties {
	/* logging, hour_metrics, minute_metrics. Not NULL: as they were set */
	struct json_pair *section[3];
	size_t section_len[3];
	struct cors_rule cors[JSON_CORS_MAX];
	size_t cors_len;
};
char *json_write_properties(const struct service_properties *properties);
void json_read_properties(struct arena *arena, const char *text,
			  struct service_properties *properties); /* text NULL: defaults */

#endif
