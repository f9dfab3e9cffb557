/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include "base/step.h"
#include "base/text/names.h"
#include "port/params.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 200 /* the bell may have been for another reader */

/* A step of the job; its name lies behind its value. */
struct known_step {
	struct known_step *next;
	const char *name;
	char value[];
};

static void free_list(struct known_step *s)
{
	while (s) {
		struct known_step *next = s->next;

		free(s);
		s = next;
	}
}

void steps_begin(struct steps *steps, const struct deferred_call *call, unsigned int slot_no)
{
	free_list(steps->known);
	free(steps->sent);
	*steps = (struct steps){ .call = call, .slot_no = slot_no };
}

static struct known_step *new_step(const char *name, size_t name_len, const char *value, size_t len)
{
	struct known_step *s = malloc(sizeof(*s) + len + 1 + name_len + 1);

	if (!s)
		_exit(EX_OSERR);
	s->next = NULL;
	memcpy(s->value, value, len);
	s->value[len] = '\0';
	s->name = memcpy(s->value + len + 1, name, name_len);
	s->value[len + 1 + name_len] = '\0';
	return s;
}

/* The end of the value at p in an object that the server has written: its comma or bracket. */
static const char *value_end(const char *p)
{
	bool text = false;
	int depth = 0;

	for (; *p && (text || depth > 0 || (*p != ',' && *p != '}')); p++) {
		if (*p == '"')
			text = !text;
		else if (text && *p == '\\' && p[1])
			p++;
		else if (!text)
			depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
	}
	return p;
}

/* Those that the call came with: {"NAME" : VALUE, ...} */
static void read_steps(struct steps *steps)
{
	const char *p = steps->call->steps;

	steps->read = true;
	while ((p = strchr(p, '"'))) {
		const char *name = p + 1, *name_end = strchr(name, '"');
		const char *value = name_end ? strchr(name_end, ':') : NULL, *end;
		struct known_step *s;

		if (!value)
			return;
		value += 1 + strspn(value + 1, " ");
		end = p = value_end(value);
		while (end > value && end[-1] == ' ')
			end--;
		s = new_step(name, (size_t)(name_end - name), value, (size_t)(end - value));
		s->next = steps->known;
		steps->known = s;
	}
}

const char *steps_get(struct steps *steps, const char *name)
{
	if (!steps->read)
		read_steps(steps);
	for (const struct known_step *s = steps->known; s && name; s = s->next)
		if (strcmp(s->name, name) == 0)
			return s->value;
	return NULL;
}

int steps_send(struct steps *steps, const char *name, const char *value)
{
	struct frame_part parts[3];
	size_t len = value ? strlen(value) : 0;

	if (!name || !names_is_function(name) || !value || steps->sent || len > STEP_VALUE_MAX ||
	    params_check(value, len, NULL) < 0)
		return DEFERRED_STEP_INVALID;
	if (!steps->read)
		read_steps(steps);
	steps->number++;
	steps->sent = new_step(name, strlen(name), value, len);
	parts[0] = (struct frame_part){ &steps->number, sizeof(steps->number) };
	parts[1] = (struct frame_part){ name, strlen(name) + 1 };
	parts[2] = (struct frame_part){ value, len + 1 };
	send_frame(FRAME_STEP, steps->slot_no, parts, 3);
	flush_frames();
	return 0;
}

bool steps_answered(struct steps *steps, struct board_slot *slot, int *result)
{
	uint32_t said = atomic_load(&slot->step);

	if (!steps->sent || said >> 3 != (steps->number & UINT32_MAX >> 3))
		return false;
	*result = -(int)(said & 7);
	if (*result == DEFERRED_STEP_SAVED) {
		steps->sent->next = steps->known;
		steps->known = steps->sent;
	} else {
		free(steps->sent);
	}
	steps->sent = NULL;
	return true;
}

/* Others listen to the bell too: it is rung again if it may have been for them. */
int steps_save(struct steps *steps, struct board_slot *slot, const char *name, const char *value)
{
	struct pollfd bell = { FRAME_STOP_FD, POLLIN, 0 };
	int result = steps_send(steps, name, value);
	uint64_t rung, one = 1;

	while (steps->sent && !steps_answered(steps, slot, &result))
		if (poll(&bell, 1, LOOK_AGAIN_MS) > 0 && read(FRAME_STOP_FD, &rung, sizeof(rung)) < 0 &&
		    errno != EAGAIN && errno != EINTR)
			bell.fd = -1; /* a plugin has replaced the descriptor */
	if (steps->call->host->stop_asked(steps->call) && write(FRAME_STOP_FD, &one, sizeof(one)) < 0)
		return result; /* it has rung already */
	return result;
}
