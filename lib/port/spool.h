/* SPDX-License-Identifier: MIT */
/*
 * spool - a folder that keeps calls while the server cannot be reached, one file a call.
 *
 *     UUID.job            an entry: a line that begins with SPOOL_HEAD and names the database, then the job as JSON,
 *                         as an element of deferred.defer_many()
 *     UUID.new            not complete: its writer has not answered, or died before it answered
 *     refused/UUID.job    an entry that cannot be stored; refused/UUID.reason has the reason
 *
 * The UUID is of version 7, so names sort by the time of the call on the clock of its host. Several users may share the
 * folder if it is sticky. Then nobody can remove or replace the entries of another user, and each reads only its own.
 * The owner of a file is the only proof of who deferred the call.
 */
#ifndef SPOOL_H
#define SPOOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_ID_SIZE 37
#define SPOOL_ENTRY_MAX ((size_t)64 << 20)

struct spool {
	const char *path; /* borrowed */
	int fd;
};

/* Open the folder. Refused: a folder that another user owns, or can change entries in. Returns 0 or DEFERRED_ESYSTEM.
 * The path is borrowed until spool_close(). */
int spool_open(struct spool *s, const char *path, struct deferred_error *err);
void spool_close(struct spool *s);

/* Add an entry. It is on disk when this returns 0, and else not there. database: of pg_place(). id: of the entry. */
int spool_append(struct spool *s, const char *database, const char *job, char id[SPOOL_ID_SIZE],
		 struct deferred_error *err);

/* The entries there are, oldest first. */
struct spool_list {
	char (*ids)[SPOOL_ID_SIZE]; /* of this user */
	size_t n;
	size_t others;     /* how many are of other users */
	size_t strange;    /* how many are not regular files: links, FIFOs, folders, devices */
	int64_t oldest_ms; /* age of the oldest one of any user; 0: there is none */
};

/* refused: those of the folder `refused` instead. Returns 0, DEFERRED_ESYSTEM or DEFERRED_ENOMEM. */
int spool_list(struct spool *s, bool refused, struct spool_list *l, struct deferred_error *err);
void spool_list_free(struct spool_list *l);

/* For people: the entries of all users, those of this one, those in `refused`, and the age of the oldest. */
struct spool_figures {
	size_t entries, own, refused;
	int64_t oldest_s;
};
int spool_look(const char *path, struct spool_figures *f, struct deferred_error *err);

/*
 * Read an entry of this user. *text: the whole, NUL-terminated and to be freed; *database and *job point into it.
 * SPOOL_GONE: another drain has removed it. SPOOL_WRONG: it cannot be an entry. SPOOL_FAILED: it cannot be read now.
 * *why has the reason.
 */
enum spool_read { SPOOL_READ, SPOOL_GONE, SPOOL_WRONG, SPOOL_FAILED };
enum spool_read spool_read(struct spool *s, const char *id, char **text, const char **database, const char **job,
			   const char **why);

/* Remove an entry. Returns 0 or DEFERRED_ESYSTEM. spool_sync(): what was removed does not come back after a crash. */
int spool_remove(struct spool *s, const char *id, struct deferred_error *err);
void spool_sync(struct spool *s);

/* Move an entry to the folder `refused`, next to a file with the reason. Returns 0 or DEFERRED_ESYSTEM. */
int spool_refuse(struct spool *s, const char *id, const char *reason, struct deferred_error *err);

/* Move it back. It gets a new UUID if the old one is so old that the database may have forgotten it. */
int spool_retry(struct spool *s, const char *id, struct deferred_error *err);

/* Remove what writers of this user left that died an hour ago or earlier. */
void spool_sweep(struct spool *s);

#endif
