/* SPDX-License-Identifier: MIT */
#include "run/namespace.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENTER_MS 1000 /* a child has entered its namespace within this time */

static bool no_namespaces; /* the kernel, or the container around us, refuses them */

bool namespace_wanted(const struct runner_setup *setup)
{
	const struct config_command *commands;
	size_t n;

	commands = config_commands(setup->config, &n);
	for (size_t i = 0; i < n; i++)
		if (commands[i].new_privileges)
			return false;
	return setup->switch_user && setup->uid != 0 && !no_namespaces;
}

void namespace_enter(int sock)
{
	char said = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';

	if (write(sock, &said, 1) != 1 || read(sock, &said, 1) != 1)
		_exit(126);
}

static bool write_map(pid_t pid, const char *which)
{
	static const char all[] = "0 0 4294967295\n";
	char path[64];
	bool written;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	written = fd >= 0 && write(fd, all, sizeof(all) - 1) == (ssize_t)sizeof(all) - 1;
	if (fd >= 0)
		close(fd);
	return written;
}

void namespace_map_ids(pid_t pid, int sock)
{
	struct pollfd fd = { sock, POLLIN, 0 };
	char said;

	if (poll(&fd, 1, ENTER_MS) <= 0 || read(sock, &said, 1) != 1)
		return; /* it has died, or is killed later because it does not get ready */
	no_namespaces = said != 'y' || !write_map(pid, "uid_map") || !write_map(pid, "gid_map");
	if (no_namespaces)
		log_line(LOG_L_DEBUG, "runners have no user namespaces: %s", strerror(errno));
	send(sock, &said, 1, MSG_NOSIGNAL);
}
