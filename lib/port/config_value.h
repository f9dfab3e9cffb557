/* SPDX-License-Identifier: MIT */
/* config_value - one value of a setting: text is checked against the type and the range of the setting. */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "port/config.h"

struct config_value {
	char *text; /* canonical: numbers in the base unit, flags as 1 or 0; NULL: none */
	int64_t number;
	double real;
	bool given; /* not the default */
};

/* The setting of that name; NULL: there is none. */
const struct config_setting *config_setting(const char *name);

/*
 * Check text and convert it. value->text is given: free(). `place` says where the text is, for errors.
 *
 * Returns 0, DEFERRED_ECONFIG or DEFERRED_ENOMEM.
 */
int config_value_parse(const struct config_setting *s, const char *text, struct config_value *value, const char *place,
		       struct deferred_error *err);

/* The same, and store the result in `values`, which has one value for each setting of the table. */
int config_value_set(struct config_value *values, const struct config_setting *s, const char *text, const char *place,
		     struct deferred_error *err);

/* GROUP:RANGE. Returns what is wrong with text; NULL: nothing. */
const char *config_value_balance(const char *text, size_t *group_len, int64_t *range);

/* "NAME:SPAN, NAME:SPAN": the next pair from *at on. Returns 1; 0 at the end; -1 if there is something else. */
int config_value_late_queue(const char **at, char name[static CONFIG_QUEUE_SIZE], double *ms);

#endif
