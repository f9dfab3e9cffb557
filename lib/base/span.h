/* SPDX-License-Identifier: MIT */
/*
 * span - a time span as people write it: "200ms", "1.5h", a bare number of seconds. Intervals in PostgreSQL's form are
 * read too: "5 minutes", "1 day 02:30:00", "01:30:00". sql/functions/admin/__ms.sql reads the same forms.
 *
 * Years and months have no length, and are refused.
 */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stdint.h>

/* 36525d, a hundred years. Whatever an option says, it can be added to the server's clock. */
#define SPAN_MAX_MS INT64_C(3155760000000)
#define SPAN_FORMS "such as 200ms, 5s, 10min, 2h or 30d, or an interval such as 5 minutes or 01:30:00"

const char *
span_decimal(const char *s,
	     /* 12 digits at most, perhaps a point and 9; returns what follows, NULL if there is no number */
	     double *number);
bool span_parse(const char *text, double *ms);
bool span_lacks_unit(const char *text); /* a number without a unit, other than 0 */
bool span_is_bare(const char *text);    /* a number without a unit */

/* True if the text begins with a number of months or years. They are not spans, since their length varies. */
bool span_is_calendar(const char *text);

#define SPAN_HINT "write a number and a unit, such as 200ms, 5s, 10min, 2h or 30d"

/* A span as people say it, to the nearest unit: 5s, 3min, 2h, 4d. Returns the caller's buffer. */
#define SPAN_AGE_SIZE 32
const char *span_age(char buf[SPAN_AGE_SIZE], int64_t seconds);

#endif
