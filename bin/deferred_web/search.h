/* SPDX-License-Identifier: MIT */
/* search - which jobs a page is about, as its address says it: q, state, queue, fn, outcome, since and until. */
#ifndef SEARCH_H
#define SEARCH_H

#include "page.h"

#define SEARCH_TAGS_MAX 32
#define SEARCH_PATH_MAX 16

struct search {
	struct store_admin_filter filter;
	struct store_web_search more;
	const char *tags[SEARCH_TAGS_MAX], *path[SEARCH_PATH_MAX];
	bool too_many; /* tags, or keys */
	int64_t id;    /* that one */
};

/* A failure is one of the database, which is asked what times mean. Texts are in the arena. */
int search_read(struct visit *v, struct search *s, struct deferred_error *err);

/* Which indexes "deferred index add" has made for it. */
int search_indexes(struct visit *v, struct search *s, struct deferred_error *err);

/* It asks for nothing but what there is an index of: no part of a label, no outcome, no error, no params. */
bool search_has_index(const struct search *s);

/* The form of it. */
void search_form(struct visit *v, const struct search *s);

/* The same search as it stands in an address, with "&amp;" behind each part; fixed: times are those that were meant,
 * "2h" is a while ago by then. */
void search_query(struct visit *v, const struct search *s, bool fixed);

#endif
