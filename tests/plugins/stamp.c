/* SPDX-License-Identifier: MIT */
/* stamp - for measuring.
 *
 *     stamp {"file":"F","n":N}   put the boot-time clock, in nanoseconds, at place N of F
 *     burn {"ms": N}             use N milliseconds of processor time
 */
#include <deferred_plugin.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int stamp(const struct deferred_call *call)
{
	static char opened[256];
	static int fd = -1;
	struct timespec ts;
	char file[256];
	long long n, ns;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	ns = (long long)ts.tv_sec * 1000000000 + ts.tv_nsec;
	if (sscanf(call->params, "{\"file\":\"%255[^\"]\",\"n\":%lld}", file, &n) != 2)
		return DEFERRED_DEAD;
	if (fd < 0 || __builtin_strcmp(file, opened) != 0) {
		if (fd >= 0)
			close(fd);
		fd = open(file, O_WRONLY | O_CLOEXEC);
		__builtin_strcpy(opened, file);
	}
	return fd >= 0 && pwrite(fd, &ns, sizeof(ns), n * (long long)sizeof(ns)) == (ssize_t)sizeof(ns)
		       ? DEFERRED_OK
		       : DEFERRED_FAILED;
}

static int burn(const struct deferred_call *call)
{
	struct timespec start, now;
	long ms;

	if (sscanf(call->params, "{\"ms\": %ld}", &ms) != 1)
		return DEFERRED_DEAD;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "stamp", .run = stamp },
	{ .name = "burn", .run = burn },
};

DEFERRED_PLUGIN("stamp", "1.0", functions);
