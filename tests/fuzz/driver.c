/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target where libFuzzer is not there.
 *
 *     NAME FOLDER              each file of the folder, once
 *     NAME FOLDER SECONDS SEED and then changes of them, for so long; what broke a promise is left in crash-NAME
 */
#include "fuzz.h"

#include "base/random.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define FILES_MAX 1000
#define BYTES_MAX 65536

static struct sample {
	uint8_t *bytes;
	size_t len;
} samples[FILES_MAX];
static size_t samples_len;
static uint8_t input[2 * BYTES_MAX];
static size_t input_len;

static void keep_input(int sig)
{
	int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd >= 0 && write(fd, input, input_len) >= 0)
		close(fd);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void read_samples(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	if (!dir) {
		fprintf(stderr, "cannot read '%s'\n", folder);
		exit(1);
	}
	while ((entry = readdir(dir)) && samples_len < FILES_MAX) {
		struct sample *s = &samples[samples_len];
		char path[4096];
		FILE *f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		f = fopen(path, "rb");
		s->bytes = malloc(BYTES_MAX);
		if (!f || !s->bytes) {
			fprintf(stderr, "cannot read '%s'\n", path);
			exit(1);
		}
		s->len = fread(s->bytes, 1, BYTES_MAX, f);
		fclose(f);
		samples_len++;
	}
	closedir(dir);
}

/* A copy of its very size: one byte too far is seen by the sanitizers. */
static void run(void)
{
	uint8_t *copy = malloc(input_len ? input_len : 1);

	if (!copy)
		exit(1);
	memcpy(copy, input, input_len);
	LLVMFuzzerTestOneInput(copy, input_len);
	free(copy);
}

static void change(uint64_t *state)
{
	static const char marks[] = "\0\t\n\r %&<>\"'/:;=?#,-_\x7f\x80\xc3\xff+0919AZaz";
	size_t n = 1 + random_next(state) % 6;

	while (n-- > 0) {
		size_t at = input_len ? random_next(state) % input_len : 0, len = 1 + random_next(state) % 16;
		const struct sample *other = &samples[random_next(state) % samples_len];

		switch (random_next(state) % 6) {
		case 0:
			if (input_len)
				input[at] ^= (uint8_t)(1 << random_next(state) % 8);
			break;
		case 1:
			if (input_len)
				input[at] = (uint8_t)marks[random_next(state) % (sizeof(marks) - 1)];
			break;
		case 2: /* take out */
			len = len < input_len - at ? len : input_len - at;
			memmove(input + at, input + at + len, input_len - at - len);
			input_len -= len;
			break;
		case 3: /* repeat */
			len = len < input_len - at ? len : input_len - at;
			if (input_len + len <= BYTES_MAX) {
				memmove(input + at + len, input + at, input_len - at);
				input_len += len;
			}
			break;
		case 4: /* put in */
			if (input_len < BYTES_MAX) {
				memmove(input + at + 1, input + at, input_len - at);
				input[at] = (uint8_t)marks[random_next(state) % (sizeof(marks) - 1)];
				input_len++;
			}
			break;
		default: /* go on as another does */
			if (other->len > 0) {
				size_t from = random_next(state) % other->len;

				len = other->len - from < BYTES_MAX - at ? other->len - from : BYTES_MAX - at;
				memcpy(input + at, other->bytes + from, len);
				input_len = at + len;
			}
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, runs = 0;
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 0);

	if (argc < 2) {
		fprintf(stderr, "usage: %s FOLDER [SECONDS SEED]\n", argv[0]);
		return 64;
	}
	signal(SIGABRT, keep_input);
	read_samples(argv[1]);
	for (size_t i = 0; i < samples_len; i++, runs++) {
		memcpy(input, samples[i].bytes, input_len = samples[i].len);
		run();
	}
	while (samples_len > 0 && time(NULL) < end) {
		const struct sample *s = &samples[random_next(&state) % samples_len];

		memcpy(input, s->bytes, input_len = s->len);
		change(&state);
		run();
		runs++;
	}
	printf("%llu inputs\n", (unsigned long long)runs);
	for (size_t i = 0; i < samples_len; i++)
		free(samples[i].bytes);
	return samples_len > 0 ? 0 : 1;
}
