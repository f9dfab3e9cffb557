/* SPDX-License-Identifier: MIT */
/*
 * From deferring to starting, on an idle system.
 *
 *     wake_latency CONNINFO bare N          INSERT + NOTIFY, claimed by a child of ours that sleeps in poll()
 *     wake_latency CONNINFO defer N FILE    deferred.defer('stamp'), started by whoever serves the queue; FILE is where
 *                                           the plugin stamp (tests/plugins) writes its times
 *
 * One at a time, 5 to 15 ms apart. Prints a line each: microseconds from before the INSERT or defer() to the start,
 * and from when its commit was acknowledged (negative: it started before we heard).
 */
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *why)
{
	fprintf(stderr, "wake_latency: %s\n", why);
	exit(1);
}

static PGconn *connect_to(const char *conninfo)
{
	PGconn *conn = PQconnectdb(conninfo);

	if (PQstatus(conn) != CONNECTION_OK)
		die(PQerrorMessage(conn));
	return conn;
}

static void run(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);

	if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
		die(PQerrorMessage(conn));
	PQclear(res);
}

static void sleep_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

/* Claims in the smallest way there is. */
static void bare_worker(const char *conninfo, volatile long long *stamps)
{
	PGconn *conn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	conn = connect_to(conninfo);
	run(conn, "listen wake_bare");
	PQclear(PQprepare(
		conn, "claim",
		"delete from wake_bare where id = (select id from wake_bare order by id limit 1 for update skip locked)"
		" returning n",
		0, NULL));
	stamps[0] = 1;
	for (;;) {
		struct pollfd fd = { PQsocket(conn), POLLIN, 0 };
		PGnotify *note;
		PGresult *res;
		int woken = 0;

		poll(&fd, 1, -1);
		PQconsumeInput(conn);
		while ((note = PQnotifies(conn))) {
			woken = 1;
			PQfreemem(note);
		}
		if (!woken)
			continue;
		res = PQexecPrepared(conn, "claim", 0, NULL, NULL, NULL, 0);
		if (PQresultStatus(res) != PGRES_TUPLES_OK)
			die(PQerrorMessage(conn));
		if (PQntuples(res) == 1)
			stamps[atol(PQgetvalue(res, 0, 0))] = now_ns();
		PQclear(res);
	}
}

static void measure(PGconn *conn, const char *statement, const char *file, long n, volatile long long *stamps)
{
	for (long i = 1; i <= n; i++) {
		char number[32], params[512];
		const char *values[1] = { file ? params : number };
		long long t0, t1;
		PGresult *res;

		snprintf(number, sizeof(number), "%ld", i);
		snprintf(params, sizeof(params), "{\"file\":\"%s\",\"n\":%ld}", file ? file : "", i);
		sleep_us(5000 + random() % 10000);
		t0 = now_ns();
		res = PQexecPrepared(conn, statement, 1, values, NULL, NULL, 0);
		t1 = now_ns();
		if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
			die(PQerrorMessage(conn));
		PQclear(res);
		while (!stamps[i]) {
			sleep_us(200);
			if (now_ns() - t1 > 30000000000)
				die("not started within 30 s");
		}
		printf("%.1f %.1f\n", (double)(stamps[i] - t0) / 1e3, (double)(stamps[i] - t1) / 1e3);
	}
}

int main(int argc, char **argv)
{
	long n = argc >= 4 ? atol(argv[3]) : 0;
	const char *file = argc == 5 && strcmp(argv[2], "defer") == 0 ? argv[4] : NULL;
	size_t size = (size_t)(n + 1) * sizeof(long long);
	volatile long long *stamps;
	pid_t child = 0;
	PGconn *conn;
	int fd = -1;

	if (n < 1 || (!file && strcmp(argv[2], "bare") != 0))
		die("usage: wake_latency CONNINFO bare N | defer N FILE");
	conn = connect_to(argv[1]);
	if (file) {
		fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
			die("cannot make the file");
	}
	stamps = mmap(NULL, size, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
	if (stamps == MAP_FAILED)
		die("cannot map the file");
	if (file) {
		PQclear(PQprepare(conn, "defer", "select deferred.defer('stamp', $1::json)", 0, NULL));
	} else {
		run(conn, "create table if not exists wake_bare (id bigint generated always as identity primary key, n "
			  "bigint)");
		PQclear(PQprepare(conn, "defer",
				  "with i as (insert into wake_bare (n) values ($1::bigint) returning n) select "
				  "pg_notify('wake_bare', '')"
				  " from i",
				  0, NULL));
		child = fork();
		if (child == 0)
			bare_worker(argv[1], stamps);
		while (child > 0 && !stamps[0])
			sleep_us(1000);
	}
	measure(conn, "defer", file, n, stamps);
	PQfinish(conn);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return 0;
}
