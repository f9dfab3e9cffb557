/* SPDX-License-Identifier: MIT */
/*
 * job_options - the members of struct deferred_opts, once. The checks, the statements that store jobs, the spool and
 * `deferred add` read this table. A member that is missing here is taken nowhere.
 */
#ifndef JOB_OPTIONS_H
#define JOB_OPTIONS_H

#include "deferred.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_option_kind {
	JOB_OPTION_TEXT,      /* const char *; NULL: none */
	JOB_OPTION_TIME,      /* the same: a time as PostgreSQL reads it, which overrides the span at `from_now` */
	JOB_OPTION_NUMBER,    /* int; 0: none */
	JOB_OPTION_SPAN,      /* int64_t, milliseconds; 0: none */
	JOB_OPTION_FROM_NOW,  /* the same, counted from the call */
	JOB_OPTION_FACTOR,    /* double; 0: none */
	JOB_OPTION_DUPLICATE, /* enum deferred_on_duplicate, which says nothing where there is no key */
	JOB_OPTION_TAGS,
	JOB_OPTION_AFTER,
	JOB_OPTION_FLOW, /* int64_t, the id of a flow or of a job in it; 0: none */
	JOB_OPTION_KEY_UNTIL,
};

struct job_option {
	const char *name; /* as deferred.defer() takes it; a span in milliseconds is name_ms in C */
	enum job_option_kind kind;
	size_t at;        /* offset in struct deferred_opts, or if `more`, in struct deferred_more_opts */
	size_t from_now;  /* offset in struct deferred_opts; of a time only */
	double min, max;  /* of a number or factor; of a text: its characters */
	const char *hint; /* what to use instead of a number or factor that is out of range */
	bool copied;      /* COPY stores it, too */
	bool alone;       /* job_enqueue_many.sql does not take it */
	bool more;        /* it is a member of struct deferred_more_opts */
};

/* In the order in which job_enqueue.sql has them, behind the queue. The last one has no name. */
extern const struct job_option job_options[];

/* The value of a text, time or on_duplicate; NULL: not given. */
const char *job_option_text(const struct job_option *k, const struct deferred_opts *o);

/* The value of a number, span or flow; 0: not given. Of key_until, the milliseconds after the end of the job; 0: until
 * its start; -1: not given. */
int64_t job_option_number(const struct job_option *k, const struct deferred_opts *o);

/* The span that a time overrides. */
int64_t job_option_from_now(const struct job_option *k, const struct deferred_opts *o);

/* The value of a factor; 0: not given. */
double job_option_factor(const struct job_option *k, const struct deferred_opts *o);

bool job_option_is_given(const struct job_option *k, const struct deferred_opts *o);

/* The option of this name, in which "-" stands for "_", too. NULL: there is none. */
const struct job_option *job_option_find(const char *name);

#endif
