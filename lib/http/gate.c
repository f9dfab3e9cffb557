/* SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* <sys/socket.h> would define recv(), which is defined here */
#include "http/gate.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define FILES_MAX (1024 * 1024 + 1024)
#define DROP_MAX (64 * 1024) /* of what follows a request that was ended, so that the client comes to see the answer */

static struct wire *_Atomic wires[FILES_MAX]; /* by descriptor; memory only where it is used */

bool gate_open(int fd, struct wire *w)
{
	if (fd < 0 || fd >= FILES_MAX)
		return false;
	wires[fd] = w;
	return true;
}

void gate_close(int fd)
{
	if (fd >= 0 && fd < FILES_MAX)
		wires[fd] = NULL;
}

/* What recv(2) reads of HTTPS goes to GnuTLS. */
static struct wire *find(int fd, bool tls)
{
	struct wire *w = fd >= 0 && fd < FILES_MAX ? wires[fd] : NULL;

	return w && w->tls == tls ? w : NULL;
}

static ssize_t pull_socket(void *from, char *to, size_t len)
{
	return recvfrom(*(int *)from, to, len, 0, NULL, NULL);
}

static ssize_t pull_tls(void *from, char *to, size_t len)
{
	unsigned char sequence[8];

	return gnutls_record_recv_seq(from, to, len, sequence);
}

/*
 * As much as there is, up to len: libmicrohttpd takes less for the sign that a socket is empty, which it is after a
 * short read; of HTTPS it takes nothing for that sign. `pull` reads from where the bytes come; `again` is what it
 * returns where there are none.
 */
static ssize_t read_through(struct wire *w, char *buf, size_t len, ssize_t (*pull)(void *from, char *to, size_t len),
			    void *from, ssize_t again)
{
	size_t n = wire_later(w, buf, len), dropped = 0;
	char in[8192];

	while (n < len) {
		size_t wanted = len - n < sizeof(in) ? len - n : sizeof(in);
		ssize_t got = pull(from, in, wanted);

		if (got <= 0)
			return n > 0 ? (ssize_t)n : got;
		dropped += w->broken ? (size_t)got : 0;
		n += wire_pass(w, in, (size_t)got, buf + n, len - n);
		if (dropped > DROP_MAX || ((size_t)got < wanted && (n > 0 || pull == pull_socket)))
			break;
	}
	if (n > 0)
		return (ssize_t)n;
	errno = EAGAIN;
	return again;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct wire *w = flags == 0 ? find(fd, false) : NULL;

	return w ? read_through(w, buf, len, pull_socket, &fd, -1) : recvfrom(fd, buf, len, flags, NULL, NULL);
}

__attribute__((visibility("default"))) ssize_t gnutls_record_recv(gnutls_session_t session, void *buf, size_t len)
{
	struct wire *w = find(gnutls_transport_get_int(session), true);

	return w ? read_through(w, buf, len, pull_tls, session, GNUTLS_E_AGAIN) : pull_tls(session, buf, len);
}
