/* SPDX-License-Identifier: MIT */
/*
 * Load on a server of the queue protocol, by one thread. Every request is signed.
 *
 *     http_load create|remove PORT QUEUE
 *     http_load put    PORT QUEUE CONNECTIONS SECONDS MOST
 *     http_load turn   PORT QUEUE CONNECTIONS SECONDS MOST
 *     http_load defer  PORT QUEUE CONNECTIONS SECONDS MOST
 *
 * on 127.0.0.1, path style, by the account ACCOUNT with the key KEY of the environment. put puts messages of 100 bytes;
 * turn takes one and deletes it, which counts as one, and ends early when there are none. defer stores jobs with params
 * of 100 bytes over the JSON API, with the token TOKEN of the environment. CONNECTIONS have a request
 * under way all the time, at most MOST are made. Prints what was done as JSON, its times in us.
 * Any answer but the one that is due ends it with status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VERSION "2021-12-02"
#define CONNECTIONS_MAX 4096

struct connection {
	int fd;
	enum { PUT, GET, DELETE } doing;
	int64_t began_ns;
	size_t len;
	char answer[8192]; /* of one message of 100 bytes */
};

static const char *account, *queue, *token; /* token NULL: of the queue protocol */
static unsigned char key[128];
static int key_len, port;
static char text[101], date[40];
static int64_t date_at_s;
static uint32_t *took_us;
static size_t took_size;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("http_load: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void set_date(void)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now == date_at_s)
		return;
	date_at_s = now;
	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

/* Sends one request. rest follows the queue's name in the path; canonical is the query as it is signed. */
static void request(int fd, const char *method, const char *rest, const char *query, const char *canonical,
		    const char *body)
{
	char to_sign[2048], head[3072], length[24] = "", signature[64];
	unsigned char mac[EVP_MAX_MD_SIZE];
	size_t body_len = strlen(body);
	unsigned mac_len;
	int len;

	set_date();
	if (body_len)
		snprintf(length, sizeof(length), "%zu", body_len);
	len = snprintf(to_sign, sizeof(to_sign),
		       "%s\n\n\n%s\n\n%s\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:" VERSION "\n/%s/%s/%s%s%s", method,
		       length, body_len ? "application/xml" : "", date, account, account, queue, rest, canonical);
	HMAC(EVP_sha256(), key, key_len, (unsigned char *)to_sign, (size_t)len, mac, &mac_len);
	EVP_EncodeBlock((unsigned char *)signature, mac, (int)mac_len);
	len = snprintf(head, sizeof(head),
		       "%s /%s/%s%s%s%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nx-ms-date: %s\r\nx-ms-version: " VERSION
		       "\r\n%s"
		       "Content-Length: %zu\r\nAuthorization: SharedKey %s:%s\r\n\r\n%s",
		       method, account, queue, rest, *query ? "?" : "", query, port, date,
		       body_len ? "Content-Type: application/xml\r\n" : "", body_len, account, signature, body);
	if (len >= (int)sizeof(head) || send(fd, head, (size_t)len, MSG_NOSIGNAL) != len)
		die("cannot send: %s", strerror(errno));
}

static int connect_one(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect to port %d: %s", port, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void defer(struct connection *c)
{
	char body[256], head[1024];
	int body_len = snprintf(body, sizeof(body), "{\"fn\":\"noop\",\"params\":\"%.98s\"}", text);
	int len = snprintf(head, sizeof(head),
			   "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
			   "Content-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n%s",
			   port, body_len, token, body);

	c->doing = PUT;
	if (len >= (int)sizeof(head) || send(c->fd, head, (size_t)len, MSG_NOSIGNAL) != len)
		die("cannot send: %s", strerror(errno));
}

static void put(struct connection *c)
{
	char body[256];

	if (token) {
		defer(c);
		return;
	}
	snprintf(body, sizeof(body),
		 "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessage><MessageText>%s</MessageText></QueueMessage>",
		 text);
	c->doing = PUT;
	request(c->fd, "POST", "/messages", "", "", body);
}

static void get(struct connection *c)
{
	c->doing = GET;
	request(c->fd, "GET", "/messages", "numofmessages=1&visibilitytimeout=300",
		"\nnumofmessages:1\nvisibilitytimeout:300", "");
}

static bool element(const char *answer, const char *name, char *value, size_t size)
{
	char tag[32];
	const char *at, *end;

	snprintf(tag, sizeof(tag), "<%s>", name);
	at = strstr(answer, tag);
	end = at ? strchr(at += strlen(tag), '<') : NULL;
	if (!end || (size_t)(end - at) >= size)
		return false;
	memcpy(value, at, (size_t)(end - at));
	value[end - at] = 0;
	return true;
}

/* Deletes what the answer tells of; false where it tells of none. */
static bool delete (struct connection *c)
{
	char id[64], receipt[256], rest[128], query[800] = "popreceipt=", canonical[300], *at = query + strlen(query);

	if (!element(c->answer, "MessageId", id, sizeof(id)) ||
	    !element(c->answer, "PopReceipt", receipt, sizeof(receipt)))
		return false;
	for (const char *from = receipt; *from; from++)
		if (strchr("+/=", *from))
			at += sprintf(at, "%%%02X", *from);
		else
			*at++ = *from;
	*at = 0;
	snprintf(rest, sizeof(rest), "/messages/%s", id);
	snprintf(canonical, sizeof(canonical), "\npopreceipt:%s", receipt);
	c->doing = DELETE;
	request(c->fd, "DELETE", rest, query, canonical, "");
	return true;
}

/* Reads what there is; true when the answer is whole. It ends at its length or with its last chunk. */
static bool answered(struct connection *c)
{
	ssize_t n = recv(c->fd, c->answer + c->len, sizeof(c->answer) - 1 - c->len, MSG_DONTWAIT);
	const char *body, *length;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		die("the connection was %s", n ? strerror(errno) : "closed");
	c->len += (size_t)n;
	c->answer[c->len] = 0;
	body = strstr(c->answer, "\r\n\r\n");
	if (!body)
		return false;
	body += 4;
	length = strcasestr(c->answer, "\r\nContent-Length:");
	if (length && length < body)
		return c->answer + c->len >= body + atoi(length + strlen("\r\nContent-Length:"));
	length = strcasestr(c->answer, "\r\nTransfer-Encoding: chunked");
	return !length || length > body || strcmp(c->answer + c->len - 5, "0\r\n\r\n") == 0;
}

static void expect(const struct connection *c, int status)
{
	if (c->len < 12 || atoi(c->answer + 9) != status)
		die("%d is due, but this came:\n%s", status, c->answer);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void add(size_t n, int64_t ns)
{
	if (n == took_size) {
		took_size = took_size ? took_size * 2 : 65536;
		took_us = realloc(took_us, took_size * sizeof(*took_us));
		if (!took_us)
			die("out of memory");
	}
	took_us[n] = (uint32_t)(ns / 1000);
}

static void load(bool puts, int connections, double seconds, long most)
{
	struct connection *all = calloc((size_t)connections, sizeof(*all));
	struct epoll_event events[256];
	int epoll = epoll_create1(EPOLL_CLOEXEC), busy = 0;
	int64_t start, end, last;
	long begun = 0, done = 0;

	if (!all || epoll < 0)
		die("out of memory");
	for (int i = 0; i < connections; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = &all[i] } };

		all[i].fd = connect_one();
		epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
	}
	start = last = now_ns();
	end = start + (int64_t)(seconds * 1e9);
	for (int i = 0; i < connections && begun < most; i++, begun++, busy++) {
		all[i].began_ns = now_ns();
		if (puts)
			put(&all[i]);
		else
			get(&all[i]);
	}
	while (busy) {
		int n = epoll_wait(epoll, events, 256, 30000);

		if (n <= 0)
			die("no answer for 30 s");
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!answered(c))
				continue;
			expect(c, c->doing == PUT ? 201 : c->doing == GET ? 200 : 204);
			c->len = 0;
			if (c->doing == GET) {
				if (!delete (c)) {
					most = 0; /* empty: the others finish what they have */
					busy--;
				}
				continue;
			}
			last = now_ns();
			add((size_t)done++, last - c->began_ns);
			if (last >= end || begun >= most) {
				busy--;
				continue;
			}
			begun++;
			c->began_ns = last;
			if (puts)
				put(c);
			else
				get(c);
		}
	}
	qsort(took_us, (size_t)done, sizeof(*took_us), compare);
	printf("{\"done\": %ld, \"seconds\": %.4f, \"p50_us\": %u, \"p99_us\": %u}\n", done,
	       (double)(last - start) / 1e9, done ? took_us[done / 2] : 0, done ? took_us[done * 99 / 100] : 0);
}

int main(int argc, char **argv)
{
	const char *key_text = getenv("KEY");

	account = getenv("ACCOUNT");
	if (argc < 4 || !account || !key_text || strlen(key_text) > 160)
		die("http_load create|remove|put|turn|defer PORT QUEUE [CONNECTIONS SECONDS MOST], ACCOUNT and KEY in "
		    "the "
		    "environment");
	key_len = EVP_DecodeBlock(key, (const unsigned char *)key_text, (int)strlen(key_text));
	for (size_t i = strlen(key_text); key_len > 0 && key_text[--i] == '=';)
		key_len--;
	port = atoi(argv[2]);
	queue = argv[3];
	memset(text, 'x', sizeof(text) - 1);
	if (strcmp(argv[1], "create") == 0 || strcmp(argv[1], "remove") == 0) {
		struct connection c = { .fd = connect_one() };
		bool creates = argv[1][0] == 'c';

		request(c.fd, creates ? "PUT" : "DELETE", "", "", "", "");
		while (!answered(&c))
			usleep(1000);
		expect(&c, creates ? 201 : 204);
		return 0;
	}
	if (argc != 7 || atoi(argv[4]) < 1 || atoi(argv[4]) > CONNECTIONS_MAX ||
	    (strcmp(argv[1], "put") != 0 && strcmp(argv[1], "turn") != 0 && strcmp(argv[1], "defer") != 0))
		die("usage: see the head of http_load.c");
	if (strcmp(argv[1], "defer") == 0 && !(token = getenv("TOKEN")))
		die("TOKEN is not set");
	load(strcmp(argv[1], "turn") != 0, atoi(argv[4]), atof(argv[5]), atol(argv[6]));
	return 0;
}
