/* SPDX-License-Identifier: MIT */
#include "base/lanes.h"

#include <stdlib.h>
#include <string.h>

void lanes_add(struct lanes *lanes, const char *queue, int32_t priority)
{
	char *copy;

	for (size_t i = lanes->n; i > 0; i--) /* the last one first: jobs of a lane come one after the other */
		if (lanes->priority[i - 1] == priority && strcmp(lanes->queue[i - 1], queue) == 0)
			return;
	copy = lanes->n < LANES_MAX ? strdup(queue) : NULL;
	if (!copy)
		return;
	lanes->queue[lanes->n] = copy;
	lanes->priority[lanes->n++] = priority;
}

void lanes_clear(struct lanes *lanes)
{
	for (size_t i = 0; i < lanes->n; i++)
		free(lanes->queue[i]);
	lanes->n = 0;
}

void lanes_move(struct lanes *to, struct lanes *from)
{
	lanes_clear(to);
	*to = *from;
	from->n = 0;
}
