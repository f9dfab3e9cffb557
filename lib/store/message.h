/* SPDX-License-Identifier: MIT */
/*
 * store_message - messages: jobs without function, put and taken by consumers that hold no connection. The HTTP front
 * calls these; SQL has the same functions (deferred.claim() and others in sql/functions).
 *
 * The functions that take items run all of them as one statement in one transaction. After 0 it is committed. Each item
 * gets a status. A client's mistake is a status and does not affect the other items. After an error no item had any
 * effect; after DEFERRED_ELOST the outcome is unknown.
 *
 * `queue` is the full name, "account.queue". Times are microseconds since 1970 on the database clock, the only clock
 * there is. Several processes may work on the same queues at the same time: none waits for another that takes, and no
 * two receive the same message.
 *
 * Order of calls: store_message_session() once on a connection of one's own, then anything.
 */
#ifndef STORE_MESSAGE_H
#define STORE_MESSAGE_H

#include "port/pg.h"

/* The numbers are those that the SQL functions return. */
enum message_status {
	MESSAGE_OK,
	MESSAGE_NO_QUEUE,
	MESSAGE_NO_MESSAGE, /* unknown id, deleted, or expired */
	MESSAGE_STALE_RECEIPT,
	MESSAGE_QUEUE_FULL,    /* the queue holds max_length jobs */
	MESSAGE_EXISTS,        /* the queue is there, with other metadata */
	MESSAGE_SAME,          /* the queue is there, with the same metadata */
	MESSAGE_BEING_DELETED, /* messages of the queue removed before under this name are still being cleared */
	MESSAGE_BAD_METADATA,  /* deferredfunction or deferredmaxdequeue is none */
	MESSAGE_TOO_LARGE,     /* the text has more bytes than the queue takes */
	MESSAGE_FORBIDDEN,     /* this role may not do that: deferred.__deferred_grant */
	MESSAGE_NOT_GIVEN,     /* the account was not given the function: store_account_allow() */
	MESSAGE_QUOTA          /* the account has as many queues as it may: deferred.__deferred_quota */
};

#define MESSAGE_NEVER INT64_MAX /* expires_us of a message that does not expire */

struct message {
	int64_t id, receipt;
	int32_t attempt; /* times it was taken */
	int64_t inserted_us, expires_us, visible_us;
	char *text; /* given, UTF-8, NUL-terminated; NULL where the operation does not return it */
	size_t text_len;
};

/* Sessions of a connection of one's own: settings that keep plans the same, whatever statistics say. */
int store_message_session(struct pg *pg, struct deferred_error *err);

struct message_put {
	const char *queue;
	const char *text; /* UTF-8 without NUL */
	size_t text_len;
	int64_t visibility_s;
	int64_t ttl_s;           /* -1: never expires; 0: the ttl of the queue, 7 days if it has none */
	const char *traceparent; /* that it is put in; NULL: none */
	/* Out. message.text is NULL */
	enum message_status status;
	struct message message;
};
/* The receipt is good until the message is first taken. Source: message_put.sql. */
int store_message_put(struct pg *pg, struct message_put *items, size_t n, struct deferred_error *err);

struct message_get {
	const char *queue;
	int max; /* messages, 1 to 32 */
	int64_t visibility_s;
	bool peek; /* look only: receipt is 0, visible_us as it is */
	/* Out; message_get_clear() frees it, whatever was returned */
	enum message_status status;
	struct message *messages;
	size_t n;
};
/* Takes and peeks may be mixed: takes first, as one statement, then peeks as another. Source: message_get.sql,
 * message_peek.sql. */
int store_message_get(struct pg *pg, struct message_get *items, size_t n, struct deferred_error *err);
void message_get_clear(struct message_get *item);

struct message_update {
	const char *queue;
	int64_t id, receipt, visibility_s;
	const char *text; /* NULL: stays as it is */
	size_t text_len;
	/* Out */
	enum message_status status;
	int64_t new_receipt, visible_us;
};
/* Source: message_update.sql. */
int store_message_update(struct pg *pg, struct message_update *items, size_t n, struct deferred_error *err);

struct message_delete {
	const char *queue;
	int64_t id, receipt;
	enum message_status status; /* out */
};
/* Source: message_delete.sql. */
int store_message_delete(struct pg *pg, struct message_delete *items, size_t n, struct deferred_error *err);

/*
 * Remove the messages that a queue has now, in short transactions, for at most budget_ms. If *all is false: the time
 * was up; call again for the rest. Source: message_clear.sql.
 */
int store_message_clear(struct pg *pg, const char *queue, int64_t budget_ms, bool *all, enum message_status *status,
			struct deferred_error *err);

/*
 * End some expired messages, and clear some of what removed queues left behind. Bounded; to be called every few
 * seconds.
 * *from_id: where to look next, 0 at first; kept by the caller from call to call. Source: message_sweep.sql.
 */
int store_message_sweep(struct pg *pg, int64_t *from_id, int64_t *expired, struct deferred_error *err);

struct message_queue {
	char *name;     /* given, without the account */
	char *metadata; /* given, JSON object of strings, the two settings included */
	/* exact up to 10,000, beyond that the planner's estimate; hidden ones count, expired ones do not */
	int64_t messages;
};
void message_queue_clear(struct message_queue *queue);

/* MESSAGE_OK: made. SAME, EXISTS, BEING_DELETED, BAD_METADATA, FORBIDDEN, NOT_GIVEN, QUOTA. metadata: JSON object of
 * strings, NULL: {}.
 * Source: message_queue_create.sql. */
int store_message_queue_create(struct pg *pg, const char *queue, const char *metadata, enum message_status *status,
			       struct deferred_error *err);

/* The queue is gone at once; its messages are cleared for at most budget_ms, then by store_message_sweep().
 * Source: message_queue_rm.sql, message_clear.sql. */
int store_message_queue_rm(struct pg *pg, const char *queue, int64_t budget_ms, enum message_status *status,
			   struct deferred_error *err);

/* *out: message_queue_clear() frees it; all NULL unless MESSAGE_OK. Source: message_queue_get.sql. */
int store_message_queue_get(struct pg *pg, const char *queue, struct message_queue *out, enum message_status *status,
			    struct deferred_error *err);

/* Replaces all of it. Source: message_queue_set_metadata.sql. */
int store_message_queue_set_metadata(struct pg *pg, const char *queue, const char *metadata,
				     enum message_status *status, struct deferred_error *err);

/* acl: JSON text as it was set; *acl is given, NULL if there is none. Setting NULL takes it away.
 * Source: message_queue_acl.sql, message_queue_set_acl.sql. */
int store_message_queue_get_acl(struct pg *pg, const char *queue, char **acl, enum message_status *status,
				struct deferred_error *err);
int store_message_queue_set_acl(struct pg *pg, const char *queue, const char *acl, enum message_status *status,
				struct deferred_error *err);

/*
 * The first max queues of an account in byte order whose names begin with prefix and are not below from_name (both
 * without account, NULL: any). Names no client of the protocol could write are left out. list[0..*n) is given:
 * message_queues_free(). messages is 0. Source: message_queues.sql.
 */
int store_message_queues(struct pg *pg, const char *account, const char *prefix, const char *from_name, int max,
			 struct message_queue **list, size_t *n, struct deferred_error *err);
void message_queues_free(struct message_queue *list, size_t n);

#endif
