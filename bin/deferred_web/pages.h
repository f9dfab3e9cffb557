/* SPDX-License-Identifier: MIT */
/* pages - what there is to be seen and done, and where. */
#ifndef PAGES_H
#define PAGES_H

#include "page.h"

extern const struct route routes[]; /* ends with path NULL */

/* A number of the query, 0: none. */
int64_t pages_number(struct visit *v, const char *name);
/* A text of the query; NULL: none, or empty. */
const char *pages_text(struct visit *v, const char *name);

/* job_pages.c */
int page_jobs(struct visit *v, struct deferred_error *err);
int page_job(struct visit *v, struct deferred_error *err);
/* actions.c */
int action_retry(struct visit *v, struct deferred_error *err);
int action_run(struct visit *v, struct deferred_error *err);
int action_cancel(struct visit *v, struct deferred_error *err);
int action_pause(struct visit *v, struct deferred_error *err);
int action_resume(struct visit *v, struct deferred_error *err);
/* What the page that an action led to says of it. */
void action_said(struct visit *v);

#endif
