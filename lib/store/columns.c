/* SPDX-License-Identifier: MIT */
#include "store/columns.h"

#include <stdlib.h>

int columns_init(struct columns *c, size_t n, const char *where, struct deferred_error *err)
{
	size_t row = sizeof(*c->text) + sizeof(*c->len) + sizeof(*c->int8) + sizeof(*c->float8) + sizeof(*c->int4) +
		     sizeof(*c->nulls);
	void *rest;

	*c = (struct columns){ .text = calloc(n + 1, row) };
	if (!c->text)
		return error_set(err, DEFERRED_ENOMEM, where, "out of memory for %zu rows", n);
	c->n = n;
	/* The widest first, so that each begins aligned. */
	rest = c->text + n;
	c->len = rest;
	rest = c->len + n;
	c->int8 = rest;
	rest = c->int8 + n;
	c->float8 = rest;
	rest = c->float8 + n;
	c->int4 = rest;
	rest = c->int4 + n;
	c->nulls = rest;
	return 0;
}

void columns_clear(struct columns *c)
{
	free(c->text);
	*c = (struct columns){ 0 };
}
