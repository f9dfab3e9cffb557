/* SPDX-License-Identifier: MIT */
/* cause_list - what cause_job.c and cause_backlog.c have in common: an answer that grows, and sentences. */
#ifndef CAUSE_LIST_H
#define CAUSE_LIST_H

#include "base/cause.h"
#include "base/span.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <stdio.h>

struct cause_list {
	struct cause *causes;
	size_t n;
};

/* Append a cause of its usual level. */
struct cause *cause_add(struct cause_list *list, enum cause_kind kind);

/* Set a text of the cause `c`. */
#define SAY(member, ...) snprintf(c->member, sizeof(c->member), __VA_ARGS__)

/* The text of a time span, for one use. */
struct cause_span_text {
	char text[SPAN_AGE_SIZE];
};
#define AGE(s) span_age((&(struct cause_span_text){ { 0 } })->text, (s))

static inline const char *or_none(const char *text)
{
	return text ? text : "";
}

/* "12 jobs", or "10000 jobs or more". */
void cause_jobs_text(char *buf, size_t size, int64_t n, bool more);

const char *cause_duration_text(char *buf, size_t size, double seconds);

/* A rate as `deferred queue set` takes it. */
const char *cause_rate_text(char *buf, size_t size, double a_second);

/* A queue whose limit is the cause, and what `deferred queue set` names to change the limit. A pattern gives the queue
 * its limits, or NULL. */
struct cause_limited {
	char queue[208], target[96];
};
struct cause_limited cause_limited(const char *queue, const char *pattern);

void cause_say_session(char *buf, size_t size, const struct cause_session *s);
void cause_say_holder(struct cause *c, const struct cause_session *holder);
void cause_say_unknown_function(struct cause *c, const char *fn, const char *host, const char *why);

/* Does nobody come for what has been ready for so long? */
bool cause_is_unserved(const struct cause_serving *s, int64_t ready_s);
void cause_say_unserved(struct cause *c, const struct cause_serving *s, const char *queue);

bool cause_lacks_rights(const struct cause_serving *s);
void cause_say_rights(struct cause *c, const struct cause_serving *s, const char *queue);

/* Append to the figure who paused it. */
void cause_say_paused(struct cause *c, const char *by, int64_t s);

/* The function is paused by the breaker. */
void cause_add_broken(struct cause_list *list, const char *fn, int64_t for_s);
void cause_add_table_locked(struct cause_list *list, const struct cause_table *t);

#endif
