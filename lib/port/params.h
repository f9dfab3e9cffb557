/* SPDX-License-Identifier: MIT */
/*
 * params - params, options and results as JSON text; the only library file to include jansson.
 *
 * A text is checked, never rewritten: numbers beyond 2^53, the order of keys and duplicate keys reach
 * the function as they were deferred.
 */
#ifndef PARAMS_H
#define PARAMS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARAMS_MAX_DEPTH 512

/* Check that text is one valid JSON value, UTF-8, no deeper than PARAMS_MAX_DEPTH. Numbers that only
 * overflow a double pass: the server stores them as they stand. Returns 0 or DEFERRED_EINVAL. */
int params_check(const char *text, size_t len, struct deferred_error *err);

/* One of which params_check() said that it is valid, to be looked at; NULL: no memory. Free it with params_free(). */
struct params_object;
struct params_object *params_read(const char *text, size_t len);
void params_free(struct params_object *object);
const char *params_text(const struct params_object *object, const char *key); /* borrowed; NULL: it has no such text */
const struct params_object *params_member(const struct params_object *object,
					  const char *key); /* borrowed; NULL: it has no such object */
bool params_has(const struct params_object *object, const char *key);
int64_t params_job(const struct params_object *object,
		   const char *key); /* first id: 17, [17, 18] or [{"job": 17}]; 0: none */

/*
 * Writes a JSON text, member by member. key: NULL for an element of an array. An error on the way is kept, and
 * params_take() reports it.
 *
 *     struct params_text t = {0};
 *     params_open(&t, NULL, '{');
 *     params_string(&t, "subject", "hello");
 *     params_close(&t, '}');
 *     rc = params_take(&t, &text, err);
 */
struct params_text {
	char *p;
	size_t len, cap;
	bool no_memory;
	char invalid[64]; /* key whose text is no valid UTF-8, else "" */
};
void params_open(struct params_text *t, const char *key, char bracket);
void params_close(struct params_text *t, char bracket);
void params_string(struct params_text *t, const char *key, const char *value);
void params_json(struct params_text *t, const char *key, const char *json); /* valid, as params_check() says */
void params_flag(struct params_text *t, const char *key, bool value);
void params_number(struct params_text *t, const char *key,
		   double value); /* whole ones up to 10^15 exactly; none that is not finite: null */

/* End it: *text is given, free() it; NULL on failure. Returns 0, DEFERRED_ENOMEM or DEFERRED_EINVAL. */
int params_take(struct params_text *t, char **text, struct deferred_error *err);

#endif
