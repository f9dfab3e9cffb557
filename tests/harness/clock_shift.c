/* SPDX-License-Identifier: MIT */
/*
 * clock_shift - preloaded into a program, it moves the clock that tells the time of day by the seconds that the file
 * $CLOCK_SHIFT holds, eight bytes in the byte order of the machine. The file is looked at with each call, so the clock
 * jumps when it is written. Clocks that only measure are left alone, as they are where a machine's time is set.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none, *shift_s = &none;
static int (*next_clock_gettime)(clockid_t, struct timespec *);

/* Calls that come before this see the real time. */
__attribute__((constructor)) static void map_shift(void)
{
	const char *path = getenv("CLOCK_SHIFT");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shift_s), PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		abort(); /* a test must not go on without what it is about */
	close(fd);
	shift_s = p;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc;

	if (!next_clock_gettime)
		*(void **)&next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	rc = next_clock_gettime(id, ts);
	if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *shift_s;
	return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
