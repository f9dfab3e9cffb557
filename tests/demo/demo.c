/* SPDX-License-Identifier: MIT */
/*
 * demo - an application that sends a mail and does not wait for it.
 *
 *     demo RECIPIENT
 *
 * Where the database and the mail server are is in the config file that DEFERRED_CONFIG names. That
 * file says `defer = 1`, so the mail becomes a job and this program ends at once. Prints the job's id.
 */
#include <deferred.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct deferred *d = NULL;
	struct deferred_error err = { 0 };
	int64_t id = 0;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: demo RECIPIENT\n");
		return 64;
	}
	struct deferred_mailbox to = { .mail = argv[1], .label = "Zoë Müller" };
	struct deferred_mail mail = {
		.to = &to,
		.to_len = 1,
		.subject = "Deferred from C — grüße",
		.text = "Dear Zoë,\n\nthis mail was deferred by a C program.\n",
		.html = "<p>Dear Zoë,</p><p>this mail was deferred by <b>a C program</b>.</p>\n",
	};

	rc = deferred_open(&d, NULL, &err);
	if (rc == 0)
		rc = deferred_send_mail(d, &mail, NULL, &id, &err);
	deferred_close(d);
	if (rc < 0) {
		fprintf(stderr, "demo: %s\n", err.message);
		return 1;
	}
	printf("%" PRId64 "\n", id);
	return 0;
}
