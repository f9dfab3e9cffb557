/* SPDX-License-Identifier: MIT */
/*
 * mail_call - call deferred_send_mail() with a mail given as JSON, for tests of lib/api/mail.c.
 *
 *     mail_call [-d CONNINFO] [-k KEY] [-f FILE] MAIL...
 *
 * MAIL: {"from": ["a@b", "Name"], "reply_to": ..., "to": [["a@b", "Name"], ...], "cc", "bcc", "subject", "text",
 * "html", "calendar", "label", "headers": {NAME: TEXT}, "attachments": [{"path", "name", "type", "delete_after_send",
 * "content", "cid"}]}. -d: on a context of its own, else without one.
 * -f: a thread sends the first mail, and a child made once FILE has "RCPT" in it, the file where the server notes
 * commands, the others.
 * Prints a line for each: {"code": N, "id": N, "message": TEXT, "hint": TEXT}.
 */
#include "deferred.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 16

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static struct deferred_mailbox mailbox(const json_t *pair)
{
	return (struct deferred_mailbox){ json_string_value(json_array_get(pair, 0)),
					  json_string_value(json_array_get(pair, 1)) };
}

static size_t mailboxes(const json_t *mail, const char *key, struct deferred_mailbox list[MOST])
{
	size_t n = json_array_size(json_object_get(mail, key));

	for (size_t i = 0; i < n && i < MOST; i++)
		list[i] = mailbox(json_array_get(json_object_get(mail, key), i));
	return n < MOST ? n : MOST;
}

static int send_one(struct deferred *d, const char *key, const json_t *json)
{
	struct deferred_mailbox to[MOST], cc[MOST], bcc[MOST];
	struct deferred_attachment files[MOST] = { 0 };
	struct deferred_header headers[MOST];
	const json_t *attachments = json_object_get(json, "attachments");
	struct deferred_mail mail = { .to = to, .cc = cc, .bcc = bcc, .attachments = files, .headers = headers };
	struct deferred_opts opts = { .key = key };
	struct deferred_error err = { 0 };
	int64_t id = -1;
	json_t *out, *value;
	const char *name;
	int code;

	mail.from = mailbox(json_object_get(json, "from"));
	mail.reply_to = mailbox(json_object_get(json, "reply_to"));
	mail.to_len = mailboxes(json, "to", to);
	mail.cc_len = mailboxes(json, "cc", cc);
	mail.bcc_len = mailboxes(json, "bcc", bcc);
	mail.subject = text(json, "subject");
	mail.text = text(json, "text");
	mail.html = text(json, "html");
	mail.calendar = text(json, "calendar");
	mail.label = text(json, "label");
	json_object_foreach(json_object_get(json, "headers"), name, value) if (mail.headers_len < MOST)
		headers[mail.headers_len++] = (struct deferred_header){ name, json_string_value(value) };
	for (size_t i = 0; i < json_array_size(attachments) && i < MOST; i++) {
		const json_t *a = json_array_get(attachments, i);

		files[mail.attachments_len++] = (struct deferred_attachment){
			text(a, "path"),    text(a, "name"),
			text(a, "type"),    json_is_true(json_object_get(a, "delete_after_send")),
			text(a, "content"), json_string_length(json_object_get(a, "content")),
			text(a, "cid")
		};
	}
	code = deferred_send_mail(d, &mail, &opts, &id, &err);
	out = json_pack("{sisIssss}", "code", code, "id", (json_int_t)id, "message", err.message, "hint", err.hint);
	json_dumpf(out, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(out);
	return code;
}

struct mails {
	struct deferred *d;
	const char *key;
	char **text;
	int n;
};

/* Returns NULL, or what cannot be read. */
static void *send_all(void *data)
{
	const struct mails *m = data;

	for (int i = 0; i < m->n; i++) {
		json_t *mail = json_loads(m->text[i], 0, NULL);

		if (!mail)
			return m->text[i];
		send_one(m->d, m->key, mail);
		json_decref(mail);
	}
	return NULL;
}

static bool says_rcpt(const char *file)
{
	char text[4096];
	FILE *f = fopen(file, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return strstr(text, "RCPT") != NULL;
}

/* Returns what the child returned; one that hangs is killed. */
static int send_on_both_sides(const struct mails *m, const char *file)
{
	struct mails first = { m->d, m->key, m->text, 1 }, rest = { m->d, m->key, m->text + 1, m->n - 1 };
	struct timespec pause = { 0, 1000000 };
	pthread_t thread;
	int status = 1;
	pid_t child;

	if (pthread_create(&thread, NULL, send_all, &first) != 0)
		return 1;
	while (!says_rcpt(file))
		nanosleep(&pause, NULL);
	child = fork();
	if (child == 0) {
		alarm(20);
		status = send_all(&rest) != NULL;
		fflush(stdout);
		_exit(status);
	}
	waitpid(child, &status, 0);
	pthread_join(thread, NULL);
	return status != 0;
}

int main(int argc, char **argv)
{
	const char *conninfo = NULL, *key = NULL, *file = NULL;
	struct deferred_error err = { 0 };
	struct deferred *d = NULL;
	struct mails mails;
	int opt, rc;

	while ((opt = getopt(argc, argv, "d:k:f:")) != -1) {
		if (opt == 'd')
			conninfo = optarg;
		else if (opt == 'k')
			key = optarg;
		else if (opt == 'f')
			file = optarg;
		else
			return 2;
	}
	if (conninfo && deferred_open(&d, conninfo, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	mails = (struct mails){ d, key, argv + optind, argc - optind };
	if (file)
		rc = send_on_both_sides(&mails, file);
	else
		rc = send_all(&mails) ? 2 : 0;
	deferred_close(d);
	return rc;
}
