/* SPDX-License-Identifier: MIT */
#include "program/doctor.h"

#include "store/admin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *doctor_word(enum doctor_level level)
{
	static const char *const words[DOCTOR_LEVELS] = { "ok", "unknown", "warn", "fail" };

	return words[level];
}

int doctor_exit_code(enum doctor_level level)
{
	static const int codes[DOCTOR_LEVELS] = { 0, 3, 1, 2 };

	return codes[level];
}

/* ---- what is found ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 0)))
static void
say(char **text, const char *fmt, va_list ap)
{
	free(*text);
	if (vasprintf(text, fmt, ap) < 0)
		*text = NULL;
}

static void doctor_forget(struct doctor *d)
{
	free(d->what);
	free(d->why);
	free(d->remedy);
	d->what = d->why = d->remedy = NULL;
	d->open = false;
}

static void hand_on(struct doctor *d)
{
	if (d->open)
		d->take(d->data, &(struct doctor_finding){ d->check, d->found, "", d->what ? d->what : "out of memory",
							   d->why, d->remedy });
	doctor_forget(d);
}

__attribute__((format(printf, 3, 0)))
static void
find(struct doctor *d, enum doctor_level level, const char *fmt, va_list ap)
{
	hand_on(d);
	d->open = true;
	d->found = level;
	if (level > d->level)
		d->level = level;
	say(&d->what, fmt, ap);
}

__attribute__((format(printf, 2, 3)))
static void
unknown(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	find(d, DOCTOR_UNKNOWN, fmt, ap);
	va_end(ap);
}

void doctor_warn(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	find(d, DOCTOR_WARN, fmt, ap);
	va_end(ap);
}

void doctor_fail(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	find(d, DOCTOR_FAIL, fmt, ap);
	va_end(ap);
}

void doctor_note(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->note, sizeof(d->note), fmt, ap);
	va_end(ap);
}

void doctor_why(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(&d->why, fmt, ap);
	va_end(ap);
}

void doctor_do(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(&d->remedy, fmt, ap);
	va_end(ap);
}

const char *doctor_user_name(const struct doctor *d)
{
	return d->user ? d->user : pg_user(d->pg);
}

bool doctor_answered(struct doctor *d, int rc, const struct deferred_error *err)
{
	if (rc == 0)
		return true;
	if (d->level != DOCTOR_OK && strcmp(err->sqlstate, "25P02") == 0)
		return false; /* the statement that failed before is reported */
	unknown(d, "could not be checked: %s", err->message);
	if (strcmp(err->sqlstate, "57014") == 0 || strcmp(err->sqlstate, "55P03") == 0) {
		doctor_why(d,
			   "a statement of a check takes %d ms at most: the server is busy, or another session holds a "
			   "lock",
			   DOCTOR_LOOK_MS);
		doctor_do(d, "run deferred doctor again when the server has less to do");
	} else if (strcmp(err->sqlstate, "42501") == 0) {
		doctor_why(d, "a check reads with the rights of the role that is connected");
		/* The command may be run by anybody: an application's role is not to become a worker's. */
		if (d->host)
			doctor_do(d,
				  "run deferred doctor as the role of the crontab line; if that is %s: grant %s to %s",
				  doctor_user_name(d), d->role, doctor_user_name(d));
		else
			doctor_do(d, "grant %s to %s", d->role, doctor_user_name(d));
	} else {
		doctor_why(d, "the check itself failed: nothing is known of what it checks");
		doctor_do(d, "%s",
			  err->hint[0] ? err->hint
				       : "run deferred doctor again; if this stays so, read the server's log");
	}
	return false;
}

bool doctor_ask(struct doctor *d, doctor_question *question, struct pg_result **res)
{
	struct deferred_error err = { 0 };
	int rc = question(d->pg, res, &err);

	return doctor_answered(d, rc, &err);
}

/* ---- a check ------------------------------------------------------------------------------------ */

static bool can_run(const struct doctor *d, enum doctor_needs needs)
{
	return needs < DOCTOR_SERVER || (d->pg && (needs < DOCTOR_SCHEMA || d->usable));
}

static int doctor_begin(struct doctor *d, struct deferred_error *err)
{
	char sql[64];
	int rc = store_admin_look(d->pg, DOCTOR_LOOK_MS, err);

	snprintf(sql, sizeof(sql), "set local lock_timeout = %d", d->lock_ms);
	return rc < 0 || d->lock_ms == 0 ? rc : pg_command(d->pg, sql, err);
}

void doctor_run(struct doctor *d, const struct doctor_check *check, void (*run)(struct doctor *d))
{
	struct deferred_error err = { 0 };
	bool reads = check->needs >= DOCTOR_SERVER;

	d->check = check->name;
	d->level = DOCTOR_OK;
	d->note[0] = '\0';
	if (!can_run(d, check->needs))
		return;
	if (reads && doctor_begin(d, &err) < 0)
		doctor_answered(d, -1, &err);
	else
		run(d);
	if (reads && !pg_broken(d->pg))
		pg_command(d->pg, "rollback", NULL);
	if (d->level == DOCTOR_OK)
		d->take(d->data, &(struct doctor_finding){ d->check, DOCTOR_OK, d->note, NULL, NULL, NULL });
	hand_on(d);
	if (d->level > d->worst)
		d->worst = d->level;
}

void doctor_clear(struct doctor *d)
{
	doctor_forget(d);
	for (size_t i = 0; i < d->functions_len; i++)
		free(d->functions[i]);
	free(d->functions);
	d->functions = NULL;
	d->functions_len = 0;
}
