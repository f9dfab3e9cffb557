/* SPDX-License-Identifier: MIT */
/*
 * spool_call - a producer with a spool: spool_call DIR N TAG defers N calls of noop, one after the other. Each has its
 * number as params, the tag, and times to wait between attempts. Prints a line for each call that was answered:
 * "ID number" or "UUID number"; and "lost number" if its outcome is unknown. Other errors go to standard error, and the
 * call is repeated.
 */
#include "deferred.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct deferred_open_opts open = { .spool = argc == 4 ? argv[1] : NULL };
	const char *tags[] = { argc == 4 ? argv[3] : NULL, NULL };
	struct deferred_opts opts = {
		.tags = tags, .backoff_floor_ms = 250, .backoff_ceiling_ms = 5000, .backoff_exponent = 1.5
	};
	struct deferred_error err = { 0 };
	struct deferred *d = NULL;

	if (argc != 4 || deferred_open_with(&d, NULL, &open, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < atoi(argv[2]); i++) {
		char params[32];
		int64_t id;
		int rc;

		snprintf(params, sizeof(params), "%d", i);
		rc = deferred_defer(d, "noop", params, &opts, &id, &err);
		if (rc == 0) {
			printf("%lld %d\n", (long long)id, i);
		} else if (rc == DEFERRED_SPOOLED) {
			printf("%s %d\n", deferred_spooled_id(d), i);
		} else if (rc == DEFERRED_ELOST) {
			printf("lost %d\n", i);
		} else {
			fprintf(stderr, "%s\n", err.message);
			i--;
			usleep(10000);
		}
	}
	deferred_close(d);
	return 0;
}
