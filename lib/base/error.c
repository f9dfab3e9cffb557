/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void error_clear(struct deferred_error *err)
{
	if (err)
		memset(err, 0, sizeof(*err));
}

/* Text cut by a precision or a buffer may end within a character. A cut character at the end is dropped; elsewhere it
 * becomes a question mark. */
static void mend_utf8(char *text)
{
	char *to = text;

	for (const char *p = text; *p;) {
		unsigned char c = (unsigned char)*p;
		size_t more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3, n = 0;

		while (n < more && (p[1 + n] & 0xc0) == 0x80)
			n++;
		if (n == more && (c & 0xc0) != 0x80) {
			memmove(to, p, n + 1);
			to += n + 1;
		} else if (p[1 + n]) {
			*to++ = '?';
		}
		p += n + 1;
	}
	*to = '\0';
}

#define OUT_OF_MEMORY "free memory on this host, or raise the memory limit of the process"

__attribute__((format(printf, 5, 0)))
static void
set_v(struct deferred_error *err, int code, const char *where, const char *cause, const char *fmt, va_list ap)
{
	const char *hint = strchr(fmt, '\n');
	size_t len;

	if (!err || err->code)
		return;
	error_clear(err);
	err->code = code;
	snprintf(err->where, sizeof(err->where), "%s", where ? where : "");
	len = (size_t)vsnprintf(err->message, sizeof(err->message), fmt, ap) - (hint ? strlen(hint) : 0);
	if (len < sizeof(err->message))
		err->message[len] = '\0';
	if (hint || code == DEFERRED_ENOMEM)
		snprintf(err->hint, sizeof(err->hint), "%s", hint ? hint + 1 : OUT_OF_MEMORY);
	len = strlen(err->message);
	if (cause)
		snprintf(err->message + len, sizeof(err->message) - len, ": %s", cause);
	mend_utf8(err->message);
}

int error_set(struct deferred_error *err, int code, const char *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_v(err, code, where, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int error_errno(struct deferred_error *err, int code, const char *where, const char *fmt, ...)
{
	const char *cause = strerror(errno);
	va_list ap;

	va_start(ap, fmt);
	set_v(err, code, where, cause, fmt, ap);
	va_end(ap);
	return code;
}

/* Prefixes of sqlstate; hint NULL: it depends on the command, which gives it. */
static const struct words {
	const char *prefix, *says, *hint;
} words[] = {
	{ "22007", "a time is not valid", "write a time such as '2026-01-31 14:30'" },
	{ "22008", "a time is not valid", "write a time such as '2026-01-31 14:30'" },
	{ "22021", "a text is not valid in the encoding of the database", "pass text in UTF-8" },
	{ "23505", "another transaction has stored the same", "run the command again" },
	{ "25006", "the server is read-only",
	  "connect to the primary: list all hosts, with target_session_attrs=read-write; or reset "
	  "default_transaction_read_only" },
	{ "3F000", "the schema of the database does not fit this program", "run: deferred migrate" },
	{ "40", "the transaction conflicts with another one", "run the command again" },
	{ "42501", "the role lacks a right", NULL },
	{ "42703", "the schema of the database does not fit this program", "run: deferred migrate" },
	{ "42883", "the schema of the database does not fit this program", "run: deferred migrate" },
	{ "42P01", "the schema of the database does not fit this program", "run: deferred migrate" },
	{ "53100", "the disk of the server is full", "free space on the server, then run the command again" },
	{ "53200", "the server is out of memory", "free memory on the server, then run the command again" },
	{ "55P03", "another transaction holds a lock", "wait until it has ended, or raise --lock-timeout" },
	{ "57014", "the statement was cancelled", "run it again; statement_timeout of the role may be too short" },
};

static const struct words *words_of(const char *sqlstate)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp(sqlstate, words[i].prefix, strlen(words[i].prefix)) == 0)
			return &words[i];
	return NULL;
}

void error_hint(struct deferred_error *err, const char *fmt, ...)
{
	const struct words *w = err ? words_of(err->sqlstate) : NULL;
	va_list ap;

	/* That of an SQLSTATE gives way to one of the caller, who knows more. */
	if (!err || (err->hint[0] && !(w && w->hint && strcmp(err->hint, w->hint) == 0)))
		return;
	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	mend_utf8(err->hint);
}

int error_not_there(struct deferred_error *err, const char *what, long long id)
{
	error_set(err, DEFERRED_ENOTFOUND, what, "%s %lld does not exist", what, id);
	error_hint(err, "it was never deferred, was purged, or belongs to a role that you are not a member of");
	return DEFERRED_ENOTFOUND;
}

void error_prefix(struct deferred_error *err, const char *fmt, ...)
{
	char text[sizeof(err->message)];
	size_t len;
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	len = strlen(text);
	if (len + 3 > sizeof(text))
		return;
	snprintf(text + len, sizeof(text) - len, ": %.*s", (int)(sizeof(text) - len - 3), err->message);
	memcpy(err->message, text, sizeof(text));
	mend_utf8(err->message);
}

/* Prefixes of sqlstate, looked up in order; the rest is permanent. */
static const struct {
	const char *prefix;
	enum error_class class;
} classes[] = {
	{ "08", ERROR_CONNECTION },   /* connection exception */
	{ "57P", ERROR_CONNECTION },  /* admin shutdown, crash shutdown, cannot connect now */
	{ "25006", ERROR_READ_ONLY },
	{ "26000", ERROR_PREPARED },  /* invalid statement name */
	{ "42P05", ERROR_PREPARED },  /* duplicate prepared statement */
	{ "40", ERROR_TRANSIENT },    /* serialization failure, deadlock */
	{ "53400", ERROR_PERMANENT }, /* a queue is full */
	{ "53", ERROR_TRANSIENT },    /* disk full, out of memory, too many connections */
	{ "55P03", ERROR_TRANSIENT }, /* lock not available */
	{ "57014", ERROR_TRANSIENT }, /* statement timeout */
	{ "58030", ERROR_TRANSIENT }, /* I/O error */
	{ "3F000", ERROR_SCHEMA },    /* schema unknown */
	{ "42P01", ERROR_SCHEMA },    /* table unknown */
	{ "42703", ERROR_SCHEMA },    /* column unknown */
	{ "42883", ERROR_SCHEMA },    /* function unknown */
};

enum error_class error_class(const char *sqlstate)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strncmp(sqlstate, classes[i].prefix, strlen(classes[i].prefix)) == 0)
			return classes[i].class;
	return ERROR_PERMANENT;
}

/* The message becomes `says (cause)`. */
static void put_cause(struct deferred_error *err, const char *says, const char *cause, size_t len)
{
	char text[sizeof(err->message)];
	size_t room = sizeof(text) - strlen(says) - 4;

	snprintf(text, sizeof(text), "%s (%.*s)", says, (int)(len < room ? len : room), cause);
	memcpy(err->message, text, sizeof(text));
	mend_utf8(err->message);
}

void error_explain(struct deferred_error *err)
{
	const struct words *w = err ? words_of(err->sqlstate) : NULL;

	if (!w)
		return;
	put_cause(err, w->says, err->message, strlen(err->message));
	if (w->hint)
		error_hint(err, "%s", w->hint);
}

void error_explain_as(struct deferred_error *err, const char *fmt, ...)
{
	const struct words *w = err ? words_of(err->sqlstate) : NULL;
	size_t n = w ? strlen(w->says) : 0, len = err ? strlen(err->message) : 0;
	char says[256];
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	vsnprintf(says, sizeof(says), fmt, ap);
	va_end(ap);
	if (w && strncmp(err->message, w->says, n) == 0 && strncmp(err->message + n, " (", 2) == 0)
		put_cause(err, says, err->message + n + 2, len - n - 3);
	else
		put_cause(err, says, err->message, len);
	err->hint[0] = '\0';
}

const char *deferred_strerror(int code)
{
	switch (code) {
	case DEFERRED_SUCCESS:
		return "success";
	case DEFERRED_SPOOLED:
		return "kept in the spool";
#define X(name, value, text) \
	case DEFERRED_##name: \
		return text;
		DEFERRED_ERRORS(X)
#undef X
	default:
		return "unknown error";
	}
}

const char *deferred_version(void)
{
	return DEFERRED_VERSION;
}
