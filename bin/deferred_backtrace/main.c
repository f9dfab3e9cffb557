/* SPDX-License-Identifier: MIT */
#include "backtrace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define FRAMES_MAX 64
#define INPUT_MAX 32768
#define OBJECT_MAX ((off_t)1 << 30)
#define NAME_SIZE 81

/* Only what can stand in a log: names come from files that may be anything. */
static char *clean(char *text)
{
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return text;
}

/* The name by which people know the file. Of a plugin a copy in memory was loaded, by its descriptor, which we have
 * too; it has the name of the file. */
static void display_name(const char *path, char name[NAME_SIZE])
{
	static const char gone[] = " (deleted)", memory[] = "memfd:";
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *slash;
	char *end;

	if (n > 0) {
		target[n] = '\0';
		path = target;
		end = n > (ssize_t)sizeof(gone) ? target + n - (sizeof(gone) - 1) : NULL;
		if (end && strcmp(end, gone) == 0)
			*end = '\0';
	}
	slash = strrchr(path, '/');
	path = slash ? slash + 1 : path;
	if (strncmp(path, memory, sizeof(memory) - 1) == 0)
		path += sizeof(memory) - 1;
	snprintf(name, NAME_SIZE, "%.80s", path);
	clean(name);
}

/* One frame: address within the object, and where to look for it: of a caller, that is in the call before. */
static void print_known(int fd, const unsigned char *image, size_t size, const char *object, uint64_t address,
			uint64_t look)
{
	char symbol[SYMBOL_SIZE], file[SOURCE_SIZE];
	uint64_t offset;
	int line = 0;

	if (symbol_find(image, size, look, symbol, &offset) == 0)
		printf("%s(%s+0x%llx)", object, clean(symbol), (unsigned long long)(offset + (address - look)));
	else
		printf("%s+0x%llx", object, (unsigned long long)address);
	/* Print what is known so far, because the next step may crash. */
	fflush(stdout);
	if (source_find(fd, look, file, &line) == 0)
		printf(" %s:%d", clean(file), line);
	putchar('\n');
	fflush(stdout);
}

static void print_frame(const char *path, uint64_t address, uint64_t look)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	void *image = MAP_FAILED;
	char name[NAME_SIZE];
	struct stat st;

	display_name(path, name);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size < OBJECT_MAX)
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image != MAP_FAILED) {
		print_known(fd, image, (size_t)st.st_size, name, address, look);
		munmap(image, (size_t)st.st_size);
	} else {
		printf("%s+0x%llx\n", name, (unsigned long long)address);
	}
	if (fd >= 0)
		close(fd);
}

/* "ADDRESS CALLER PATH": hexadecimal, 1 for a frame that called the one before it; without path the address is not in
 * any object. */
static void take_line(char *line)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);
	bool caller = strncmp(end, " 1 ", 3) == 0;

	if (end == line || strlen(end) < 3)
		return;
	if (end[3] == '/')
		print_frame(end + 3, address, caller && address > 0 ? address - 1 : address);
	else
		printf("0x%llx\n", (unsigned long long)address);
}

int main(void)
{
	static char input[INPUT_MAX + 1];
	size_t len = 0;
	ssize_t n;
	char *next = input, *line;

	while (len < INPUT_MAX &&
	       ((n = read(STDIN_FILENO, input + len, INPUT_MAX - len)) > 0 || (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	for (int frames = 0; frames < FRAMES_MAX && (line = strsep(&next, "\n")); frames++)
		take_line(line);
	return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}
