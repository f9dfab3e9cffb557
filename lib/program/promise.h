/* SPDX-License-Identifier: MIT */
/*
 * promise - the answer of `deferred advise` and its page. It is the crontab lines with which a share of the jobs begins
 * within a time, or the reason why there are none.
 *
 *     outlook_init(&o); outlook_read(&o, pg, &err);
 *     if (promise_can(&o) && advice_seek(&o.wanted, o.histories, o.n, &a) == 0)
 *             promise_tell(&o, &a, &sink);
 *     else
 *             promise_too_little(&o, &sink);
 *     outlook_clear(&o);
 */
#ifndef PROMISE_H
#define PROMISE_H

#include "program/outlook.h"

#include <limits.h>

/* what a crontab can have as it is */
#define PROMISE_PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
#define PROMISE_LINE (PATH_MAX + 1024)

/* Is enough known for one? */
bool promise_can(const struct outlook *o);

/* If not: what holds without. */
void promise_too_little(const struct outlook *o, const struct outlook_sink *to);
void promise_json_too_little(const struct outlook *o, struct params_text *t); /* an object */

/* Print the result of today's lines, if it is known. Call it first. */
void promise_today(const struct outlook *o, const struct outlook_sink *to);

/* Print the promise, or why there is none, without the crontab lines. */
void promise_tell(const struct outlook *o, const struct advice *a, const struct outlook_sink *to);

/* Where the lines go. */
const char *promise_where(const struct advice *a);

/* One of the a->setting.lines; program: how check_deferred is called there. */
void promise_line(const struct outlook *o, const struct advice *a, int line, const char *program, char *buf,
		  size_t size);

/* All of it as an object. Returns 0 or a DEFERRED_E... */
int promise_json(const struct outlook *o, const struct advice *a, const char *program, struct params_text *t,
		 struct deferred_error *err);

#endif
