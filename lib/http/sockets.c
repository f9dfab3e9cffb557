/* SPDX-License-Identifier: MIT */
#include "http/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_INHERITED 3
#define BACKLOG 1024
#define LOCAL "unix:" /* may stand before the path of a Unix socket */

static int add_socket(struct listen_sockets *sockets, int fd, bool tls, const char *name, struct deferred_error *err)
{
	struct listen_socket *s;

	if (sockets->len == SOCKETS_MAX)
		return error_set(err, DEFERRED_ECONFIG, "listen",
				 "more than %d listening sockets\nlisten on fewer addresses", SOCKETS_MAX);
	s = &sockets->list[sockets->len++];
	s->fd = fd;
	s->tls = tls;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return 0;
}

static void prepare_inherited(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* The n-th of "a:b:c". */
static bool nth_is(const char *names, int n, const char *word)
{
	size_t len;

	for (; n > 0 && names; n--)
		names = strchr(names, ':') ? strchr(names, ':') + 1 : NULL;
	len = names ? strcspn(names, ":") : 0;
	return names && len == strlen(word) && memcmp(names, word, len) == 0;
}

/* Sockets of systemd (LISTEN_FDS). One named "https" or "tls" speaks TLS. The variables leave the environment. */
static int take_inherited(struct listen_sockets *sockets, struct deferred_error *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
	int n = fds && pid && strtol(pid, NULL, 10) == (long)getpid() ? (int)strtol(fds, NULL, 10) : 0, rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		int fd = FIRST_INHERITED + i, is_listening = 0;
		socklen_t len = sizeof(is_listening);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) < 0 || !is_listening)
			return error_set(
				err, DEFERRED_ECONFIG, "listen",
				"descriptor %d of LISTEN_FDS is not a listening socket\ncorrect the socket unit", fd);
		prepare_inherited(fd);
		rc = add_socket(sockets, fd, nth_is(names, i, "https") || nth_is(names, i, "tls"), "inherited socket",
				err);
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return rc;
}

/* "host:port", "[v6]:port" or "port". */
static bool split_address(char *text, const char **host, const char **port)
{
	char *colon = strrchr(text, ':');

	*host = "127.0.0.1";
	*port = text;
	if (colon) {
		*port = colon + 1;
		*host = text;
		*colon = '\0';
		if (text[0] == '[' && colon > text + 1 && colon[-1] == ']') {
			colon[-1] = '\0';
			*host = text + 1;
		} else if (strchr(text, ':')) {
			return false;
		}
	}
	return **port && !(*port)[strspn(*port, "0123456789")] && strtol(*port, NULL, 10) <= 65535;
}

/* Another start may find the port or descriptors free. An address that is not ours needs another setting. */
static int cannot_listen(const char *where, struct deferred_error *err)
{
	bool temporary = errno == EADDRINUSE || errno == EMFILE || errno == ENFILE;

	return error_errno(err, temporary ? DEFERRED_ESYSTEM : DEFERRED_ECONFIG, "listen", "cannot listen on '%s'",
			   where);
}

/* A socket in the file system, for its owner and group. It replaces a socket on which nobody listens. */
static int open_local(struct listen_sockets *sockets, const char *path, struct deferred_error *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct stat st;
	int fd = -1, rc;

	if (strlen(path) >= sizeof(at.sun_path))
		return error_set(err, DEFERRED_ECONFIG, "listen", "cannot listen on '%s': the path is too long", path);
	memcpy(at.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno == ECONNREFUSED)
		unlink(path);
	if (fd >= 0) {
		close(fd);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	/* Nobody gets in before listen(), and by then the mode is right. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || chmod(path, 0660) < 0 ||
	    listen(fd, BACKLOG) < 0) {
		rc = cannot_listen(path, err);
	} else {
		rc = add_socket(sockets, fd, false, path, err);
		if (rc == 0)
			return 0;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int open_one(struct listen_sockets *sockets, const char *address, bool tls, struct deferred_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
	const char *host, *port;
	char text[256];
	int fd, on = 1, rc;

	if (strncmp(address, LOCAL, strlen(LOCAL)) == 0)
		address += strlen(LOCAL);
	if (address[0] == '/' && !tls)
		return open_local(sockets, address, err);
	snprintf(text, sizeof(text), "%s", address);
	if (!split_address(text, &host, &port))
		return error_set(err, DEFERRED_ECONFIG, "listen",
				 "cannot listen on '%s': not HOST:PORT, [HOST]:PORT or PORT%s", address,
				 tls ? "" : ", nor the /PATH of a socket");
	rc = getaddrinfo(*host ? host : NULL, port, &hints, &found);
	if (rc != 0)
		return error_set(err, DEFERRED_ECONFIG, "listen", "cannot listen on '%s': %s", address,
				 gai_strerror(rc));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (found->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		rc = cannot_listen(address, err);
		if (fd >= 0)
			close(fd);
	} else {
		struct sockaddr_storage at;
		socklen_t len = sizeof(at);
		char name[64], numeric_host[INET6_ADDRSTRLEN] = "?", numeric_port[8] = "?";

		/* Port 0 has become a real one. */
		if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
			getnameinfo((struct sockaddr *)&at, len, numeric_host, sizeof(numeric_host), numeric_port,
				    sizeof(numeric_port), NI_NUMERICHOST | NI_NUMERICSERV);
		snprintf(name, sizeof(name), strchr(numeric_host, ':') ? "[%s]:%s" : "%s:%s", numeric_host,
			 numeric_port);
		rc = add_socket(sockets, fd, tls, name, err);
		if (rc < 0)
			close(fd);
	}
	freeaddrinfo(found);
	return rc;
}

/* Those of a list "127.0.0.1:10001, [::1]:10001, 10001, /run/x.sock". A port alone means loopback. */
static int open_list(struct listen_sockets *sockets, const char *addresses, bool tls, struct deferred_error *err)
{
	char *copy = strdup(addresses ? addresses : ""), *save = NULL;
	int rc = copy ? 0 : error_set(err, DEFERRED_ENOMEM, "listen", "out of memory");

	for (char *one = copy ? strtok_r(copy, ", \t", &save) : NULL; one && rc == 0;
	     one = strtok_r(NULL, ", \t", &save))
		rc = open_one(sockets, one, tls, err);
	free(copy);
	return rc;
}

int sockets_open_setting(struct listen_sockets *sockets, const struct config *config, const char *section,
			 const char *setting, struct deferred_error *err)
{
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%s.%s", section, setting);
	rc = open_list(sockets, config_text(config, name), strcmp(setting, "listen_tls") == 0, err);
	if (rc < 0)
		error_hint(err, "set %s to a free port of this host: HOST:PORT, [HOST]:PORT or PORT", name);
	return rc;
}

int sockets_open(struct listen_sockets *sockets, const struct config *config, const char *section,
		 struct deferred_error *err)
{
	int rc = take_inherited(sockets, err);

	if (rc == 0 && sockets->len == 0) {
		rc = sockets_open_setting(sockets, config, section, "listen", err);
		if (rc == 0)
			rc = sockets_open_setting(sockets, config, section, "listen_tls", err);
	}
	sockets->metrics = sockets->len;
	if (rc == 0)
		rc = sockets_open_setting(sockets, config, section, "listen_metrics", err);
	if (rc == 0 && sockets->len == 0) {
		rc = error_set(err, DEFERRED_ECONFIG, "listen", "no address to listen on is set");
		error_hint(err, "set %s.listen or %s.listen_tls", section, section);
	}
	return rc;
}

static bool address_of(const struct listen_socket *s, struct sockaddr_storage *at)
{
	socklen_t len = sizeof(*at);

	return getsockname(s->fd, (struct sockaddr *)at, &len) == 0;
}

bool sockets_is_unix(const struct listen_socket *s)
{
	struct sockaddr_storage at;

	return address_of(s, &at) && at.ss_family == AF_UNIX;
}

bool sockets_is_local(const struct listen_socket *s)
{
	struct sockaddr_storage at;

	if (!address_of(s, &at))
		return false;
	if (at.ss_family == AF_INET)
		return ntohl(((struct sockaddr_in *)&at)->sin_addr.s_addr) >> 24 == 127;
	if (at.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&at)->sin6_addr);
	return at.ss_family == AF_UNIX;
}

void sockets_close(struct listen_sockets *sockets)
{
	for (int i = 0; i < sockets->len; i++)
		if (sockets->list[i].fd >= 0)
			close(sockets->list[i].fd);
	sockets->len = 0;
}
