/* SPDX-License-Identifier: MIT */
#include "columns.h"

#include <stdlib.h>

int columns_init(struct columns *c, size_t n, const char *where, struct deferred_error *err)
{
	size_t row = sizeof(*c->text) + sizeof(*c->len) + sizeof(*c->int8) + sizeof(*c->float8) + sizeof(*c->int4) + sizeof(*c->nulls);

	*c = (struct columns){ .text = calloc(n + 1, row) };
	if (!c->text)
		return error_set(err, DEFERRED_ENOMEM, where, "out of memory for %zu rows", n);
	c->n = n;
	/* The widest first, so that each begins aligned. */
	c->len = (size_t *)(c->text + n);
	c->int8 = (int64_t *)(c->len + n);
	c->float8 = (double *)(c->int8 + n);
	c->int4 = (int32_t *)(c->float8 + n);
	c->nulls = (bool *)(c->int4 + n);
	return 0;
}

void columns_clear(struct columns *c)
{
	free(c->text);
	*c = (struct columns){ 0 };
}
