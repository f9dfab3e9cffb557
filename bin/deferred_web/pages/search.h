/* SPDX-License-Identifier: MIT */
/* search - which jobs a page is about, as the values of its query say: q, state, queue, fn, outcome, since, until. */
#ifndef SEARCH_H
#define SEARCH_H

#include "page/page.h"

#define SEARCH_TAGS_MAX 32
#define SEARCH_PATH_MAX 16

struct search {
	struct store_admin_filter filter;
	struct store_web_search more;
	const char *tags[SEARCH_TAGS_MAX], *path[SEARCH_PATH_MAX];
	bool too_many; /* tags, or keys */
	int64_t id;    /* a single job, by its number */
};

/* Texts are in the arena. False: the request was refused, or *rc is the failure of the database, which reads times. */
bool search_read(struct web_request *r, struct search *s, int *rc, struct deferred_error *err);

/* Finds out which indexes "deferred index add" has made for it. */
int search_indexes(struct web_request *r, struct search *s, struct deferred_error *err);

/* Does it need only what has an index? It has no part of a label, no outcome, no error and no params then. */
bool search_has_index(const struct search *s);

void search_form(struct web_request *r, const struct search *s);

/* The same search as a query, with "&amp;" behind each value. fixed: with the times that were meant, because "2h" means
 * another time later. */
void search_query(struct web_request *r, const struct search *s, bool fixed);

#endif
