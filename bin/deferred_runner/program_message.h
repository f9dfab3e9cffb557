/* SPDX-License-Identifier: MIT */
/*
 * program_message - the heads of messages between a runner and a program: lines of flat JSON, see deferred_program(7).
 * Pure functions. Messages of a program are not trusted.
 */
#ifndef PROGRAM_MESSAGE_H
#define PROGRAM_MESSAGE_H

#include "deferred_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEAD_MAX 16384 /* with its newline */
#define MESSAGE_BODY_MAX (16 << 20)

enum message_type {
	MESSAGE_FUNCTION,
	MESSAGE_READY,
	MESSAGE_PROGRESS,
	MESSAGE_LOG,
	MESSAGE_DEFER,
	MESSAGE_STEP,
	MESSAGE_DONE,
	MESSAGE_TYPES
};

/* A head of a program. Texts point into its line, and are "" if they are not there. */
struct message {
	enum message_type type;
	const char *name; /* member `fn` or `name` */
	const char *text, *version, *outcome;
	int64_t job;                                                            /* -1: not there */
	int64_t bytes, params, timeout_ms, max_attempts, protocol, level, last; /* 0: not there */
	int64_t batch, batch_wait_ms;                                           /* the same */
	int64_t progress_resets;                                                /* the same */
	int64_t done, total, after_ms;                                          /* -1: not there */
};

/* Read a head, without its newline. The line is overwritten. Returns NULL, or what is wrong. */
const char *message_read(char *line, size_t len, struct message *message);

/* The enum deferred_result of member `outcome`; -1: it is none. */
int message_outcome(const struct message *message);

/* Read a line in which a command gives the outcome of a job of its batch, without its newline: members `job`,
 * `outcome`, `text` and `after_ms`. Returns NULL, or what is wrong. */
const char *message_read_outcome(char *line, size_t len, struct message *message);

/* Write a head: first the type, then members, at last the newline. One that would be too long is marked as such. */
struct message_head {
	char data[MESSAGE_HEAD_MAX];
	size_t len;
	bool too_long;
};
void message_begin(struct message_head *head, const char *type);
void message_put_text(struct message_head *head, const char *name, const char *text);
void message_put_number(struct message_head *head, const char *name, int64_t number);
void message_put_id(struct message_head *head, const char *name, int64_t id); /* as a string */
void message_put_call(struct message_head *head, const struct deferred_call *call,
		      int64_t left_ms); /* left_ms: of its time limit; -1: it has none */
void message_end(struct message_head *head);

#endif
