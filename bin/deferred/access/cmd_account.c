/* SPDX-License-Identifier: MIT */
/* Accounts of the HTTP front. Keys are shown when they are made, and never again. */
#include "cmd.h"

#include "program/account_key.h"
#include "store/account.h"
#include "table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct keys {
	unsigned char key[2][ACCOUNT_KEY_MAX];
	size_t len[2];
};

static bool is_account_name(const char *s)
{
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");

	return s[len] == '\0' && len >= 3 && len <= 24;
}

/* ---- keys ------------------------------------------------------------------------------------- */

/* Keys of another service, a line each: they are not to stand on a command line. */
static int account_read_keys(struct keys *keys, FILE *fp, const char *path, struct deferred_error *err)
{
	char line[ACCOUNT_KEY_TEXT + 2];

	for (int i = 0; i < 2 && fgets(line, sizeof(line), fp); i++) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!account_key_parse(line, keys->key[i], &keys->len[i])) {
			error_set(err, DEFERRED_EINVAL, "account", "line %d of '%s' is not a key", i + 1, path);
			error_hint(err, "a key is %d to %d bytes in base64", ACCOUNT_KEY_MIN, ACCOUNT_KEY_MAX);
			return DEFERRED_EINVAL;
		}
	}
	explicit_bzero(line, sizeof(line));
	return keys->len[0] > 0 ? 0
				: error_set(err, DEFERRED_EINVAL, "account",
					    "file '%s' does not hold a key\nwrite one key per line", path);
}

static int given_keys(struct keys *keys, const char *path, struct deferred_error *err)
{
	bool standard_input = strcmp(path, "-") == 0;
	FILE *fp = standard_input ? stdin : fopen(path, "re");
	int rc;

	if (!fp)
		return error_errno(err, DEFERRED_EINVAL, "account",
				   "file '%s' cannot be opened\ncorrect the path, or let this user read it", path);
	rc = account_read_keys(keys, fp, standard_input ? "standard input" : path, err);
	if (!standard_input)
		fclose(fp);
	return rc;
}

/* Keys that were not given are made. */
static int complete_keys(struct keys *keys, struct deferred_error *err)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < 2; i++) {
		if (keys->len[i] > 0)
			continue;
		rc = account_key_new(keys->key[i], err);
		keys->len[i] = ACCOUNT_KEY_NEW;
	}
	return rc;
}

static int refuse_key_file(const char *path, const char *what, struct deferred_error *err)
{
	error_set(err, DEFERRED_ECONFIG, "account", "%s '%s', by which the keys of accounts are encrypted", what, path);
	error_hint(err, "get it back from a copy, or from another machine that serves these accounts");
	return DEFERRED_ECONFIG;
}

/* Does this master key open any key of these accounts? */
static bool opens_any(const unsigned char *master, const struct account_row *rows, size_t n)
{
	unsigned char key[ACCOUNT_KEY_MAX];
	bool opens = false;
	size_t len;

	for (size_t i = 0; i < 2 * n && !opens; i++)
		opens = account_key_decrypt(master, rows[i / 2].name, 1 + (int)(i % 2), rows[i / 2].cipher[i % 2],
					    rows[i / 2].cipher_len[i % 2], key, &len, NULL) == 0;
	explicit_bzero(key, sizeof(key));
	return opens;
}

/* The first account makes the key file. Later it must be there, and the same: nobody could serve the accounts of both.
 * */
static int load_master(struct cli *cli, unsigned char master[ACCOUNT_MASTER_BYTES], struct deferred_error *err)
{
	const char *path = config_key_file(cli->config);
	struct deferred_error why = { 0 };
	struct account_row *rows;
	size_t n;
	int rc = store_account_ls(cli->pg, &rows, &n, err);

	if (rc < 0)
		return rc;
	rc = account_key_load(path, master, &why);
	if (rc == DEFERRED_ENOTFOUND && n == 0) {
		rc = account_key_make(path, err);
		if (rc == 0)
			rc = account_key_load(path, master, err);
		if (rc == 0)
			fprintf(stderr,
				"deferred: created key file '%s'\nhint: keep a copy; without it the keys of all "
				"accounts are lost\n",
				path);
	} else if (rc == DEFERRED_ENOTFOUND) {
		rc = refuse_key_file(path, "the key file is missing:", err);
	} else if (rc < 0) {
		*err = why;
	} else if (n > 0 && !opens_any(master, rows, n)) {
		rc = refuse_key_file(path, "this is another key file than the one:", err);
	}
	store_account_free(rows, n);
	return rc;
}

static int encrypt(const unsigned char *master, const char *name, int number, const struct keys *keys,
		   unsigned char cipher[ACCOUNT_CIPHER_MAX], size_t *len, struct deferred_error *err)
{
	return account_key_encrypt(master, name, number, keys->key[number - 1], keys->len[number - 1], cipher, len,
				   err);
}

/* "http://host:port" to what Azure client libraries take. */
static void print_connection_string(const char *endpoint, const char *name, const char *key)
{
	size_t len = strlen(endpoint);

	while (len > 0 && endpoint[len - 1] == '/')
		len--;
	printf("DefaultEndpointsProtocol=%s;AccountName=%s;AccountKey=%s;QueueEndpoint=%.*s/%s;",
	       strncmp(endpoint, "https:", 6) == 0 ? "https" : "http", name, key, (int)len, endpoint, name);
}

/* number 0: both. */
static void print_keys(const struct cli *cli, const char *name, const struct keys *keys, int number,
		       const char *endpoint)
{
	int first = number ? number - 1 : 0, last = number ? number - 1 : 1;
	char text[ACCOUNT_KEY_TEXT];

	if (cli->json)
		printf("{\"account\": \"%s\"", name);
	else
		printf("account: %s\n", name);
	for (int i = first; i <= last; i++) {
		account_key_text(text, keys->key[i], keys->len[i]);
		printf(cli->json ? ", \"key%d\": \"%s\"" : "key %d:   %s\n", i + 1, text);
	}
	if (endpoint) {
		account_key_text(text, keys->key[first], keys->len[first]);
		fputs(cli->json ? ", \"connection_string\": \"" : "connection string: ", stdout);
		print_connection_string(endpoint, name, text);
		fputs(cli->json ? "\"" : "\n", stdout);
	}
	if (cli->json)
		puts("}");
	explicit_bzero(text, sizeof(text));
}

/* ---- verbs ------------------------------------------------------------------------------------ */

static int cmd_account_add(struct cli *cli, const char *name, const char *keys_path, const char *endpoint)
{
	unsigned char master[ACCOUNT_MASTER_BYTES], cipher[2][ACCOUNT_CIPHER_MAX];
	const unsigned char *const ciphers[2] = { cipher[0], cipher[1] };
	struct deferred_error err = { 0 };
	struct keys keys = { 0 };
	size_t len[2];
	int rc = keys_path ? given_keys(&keys, keys_path, &err) : 0;

	if (rc == 0)
		rc = complete_keys(&keys, &err);
	if (rc == 0)
		rc = load_master(cli, master, &err);
	for (int i = 0; rc == 0 && i < 2; i++)
		rc = encrypt(master, name, i + 1, &keys, cipher[i], &len[i], &err);
	if (rc == 0)
		rc = store_account_add(cli->pg, name, ciphers, len, &err);
	if (rc == 0)
		print_keys(cli, name, &keys, 0, endpoint);
	explicit_bzero(&keys, sizeof(keys));
	explicit_bzero(master, sizeof(master));
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

static int rotate(struct cli *cli, const char *name, int number, const char *endpoint)
{
	unsigned char master[ACCOUNT_MASTER_BYTES], cipher[ACCOUNT_CIPHER_MAX];
	struct deferred_error err = { 0 };
	struct keys keys = { 0 };
	size_t len;
	int rc = complete_keys(&keys, &err);

	if (rc == 0)
		rc = load_master(cli, master, &err);
	if (rc == 0)
		rc = encrypt(master, name, number, &keys, cipher, &len, &err);
	if (rc == 0)
		rc = store_account_rotate(cli->pg, name, number, cipher, len, &err);
	if (rc == 0)
		print_keys(cli, name, &keys, number, endpoint);
	explicit_bzero(&keys, sizeof(keys));
	explicit_bzero(master, sizeof(master));
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

static void print_accounts(const struct account_row *rows, size_t n)
{
	static const char *const headers[] = { "ACCOUNT", "STATE", "ADDED", "KEY 1 OF", "KEY 2 OF", "FUNCTIONS" };
	struct table t;

	table_begin(&t, headers, 6);
	for (size_t i = 0; i < n; i++) {
		table_cell(&t, "%s", rows[i].name);
		table_cell(&t, "%s", rows[i].enabled ? "enabled" : "disabled");
		table_cell(&t, "%s", rows[i].created);
		table_cell(&t, "%s", rows[i].key_since[0]);
		table_cell(&t, "%s", rows[i].key_since[1]);
		table_cell(&t, "%s", rows[i].functions);
	}
	table_end_list(&t, "accounts");
}

/* Their names need no escapes. */
static void account_print_functions(const char *functions)
{
	fputs(", \"functions\": [", stdout);
	for (const char *p = functions; *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");

		printf("%s\"%.*s\"", p == functions ? "" : ", ", (int)len, p);
		p += len;
	}
	putchar(']');
}

static int cmd_account_ls(struct cli *cli)
{
	struct deferred_error err = { 0 };
	struct account_row *rows;
	size_t n;

	if (store_account_ls(cli->pg, &rows, &n, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		putchar('[');
		for (size_t i = 0; i < n; i++) {
			printf("%s{\"account\": \"%s\", \"enabled\": %s, \"created_at\": \"%s\", \"key1_since\": "
			       "\"%s\", \"key2_since\": \"%s\"",
			       i ? ",\n " : "", rows[i].name, rows[i].enabled ? "true" : "false", rows[i].created,
			       rows[i].key_since[0], rows[i].key_since[1]);
			account_print_functions(rows[i].functions);
			putchar('}');
		}
		puts("]");
	} else {
		print_accounts(rows, n);
	}
	store_account_free(rows, n);
	return EX_OK;
}

static int cmd_account_change(struct cli *cli, const char *verb, const char *name)
{
	struct deferred_error err = { 0 };
	int rc = strcmp(verb, "rm") == 0 ? account_rm_exec(cli->pg, name, &err)
					 : store_account_enable(cli->pg, name, strcmp(verb, "enable") == 0, &err);

	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("{\"account\": \"%s\", \"%s\": true}\n", name,
		       strcmp(verb, "rm") == 0 ? "removed"
		       : verb[0] == 'e'        ? "enabled"
					       : "disabled");
	return EX_OK;
}

static int allow(struct cli *cli, const char *name, bool may, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	char *now;

	if (store_account_allow(cli->pg, name, may, (const char *const *)argv, (size_t)argc, &now, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		printf("{\"account\": \"%s\"", name);
		account_print_functions(now);
		puts("}");
	}
	free(now);
	return EX_OK;
}

static bool is_endpoint(const char *s)
{
	/* It becomes part of a connection string, which ";" would end, and of JSON. */
	return (strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0) &&
	       strpbrk(s, ";\"\\ \t\r\n") == NULL && strstr(s, "://")[3] != '\0';
}

static const char *const key_numbers[] = { "1", "2", NULL };
enum { OPT_KEY = 1, OPT_KEYS, OPT_ENDPOINT };

/* Options of a word. Its arguments are an account and, for allow and disallow, functions. */
struct line {
	int64_t number;
	const char *keys, *endpoint;
	bool takes_functions;
};

/* False: the word ends with *rc. */
static bool account_read_line(struct cli *cli, int argc, char **argv, const struct program_option *options,
			      struct line *line, int *rc)
{
	int c;

	*rc = EX_USAGE;
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			*rc = EX_OK;
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD ||
		    (c == OPT_KEY && !cli_int(cli, "--key", optarg, 1, 2, &line->number)))
			return false;
		if (c == OPT_KEYS)
			line->keys = optarg;
		if (c == OPT_ENDPOINT && !is_endpoint(line->endpoint = optarg)) {
			cli_bad_value(cli, "for example http://127.0.0.1:10001", "--endpoint", optarg,
				      "is not an address");
			return false;
		}
	}
	if (!cli_arguments(cli, argc, argv, line->takes_functions ? "NAME FUNCTION..." : "NAME"))
		return false;
	if (is_account_name(argv[optind]))
		return true;
	cli_misuse(cli, "a name has 3 to 24 lower-case letters and digits", "account name '%.64s' is invalid",
		   argv[optind]);
	return false;
}

static int account_add(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "keys", "FILE", "take the keys from a file; -: standard input", OPT_KEYS },
		{ "endpoint", "URL", "address in the connection string", OPT_ENDPOINT },
		{ 0 },
	};
	struct line line = { 0 };
	int rc;

	if (!account_read_line(cli, argc, argv, options, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_account_add(cli, argv[optind], line.keys, line.endpoint);
}

static int account_ls(struct cli *cli, int argc, char **argv)
{
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	return (rc = cli_connect(cli, true)) != 0 ? rc : cmd_account_ls(cli);
}

static int account_rotate(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "key", "N", "which key", OPT_KEY, NULL, key_numbers },
		{ "endpoint", "URL", "address in the connection string", OPT_ENDPOINT },
		{ 0 },
	};
	struct line line = { 0 };
	int rc;

	if (!account_read_line(cli, argc, argv, options, &line, &rc))
		return rc;
	if (line.number == 0)
		return cli_misuse(cli, "write deferred account rotate NAME --key 1 or --key 2",
				  "option '--key' is missing");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return rotate(cli, argv[optind], (int)line.number, line.endpoint);
}

static int account_change(struct cli *cli, int argc, char **argv)
{
	struct line line = { 0 };
	int rc;

	if (!account_read_line(cli, argc, argv, NULL, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_account_change(cli, argv[0], argv[optind]);
}

static int account_allow(struct cli *cli, int argc, char **argv)
{
	struct line line = { .takes_functions = true };
	int rc;

	if (!account_read_line(cli, argc, argv, NULL, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return allow(cli, argv[optind], argv[0][0] == 'a', argc - optind - 1, argv + optind + 1);
}

static int cmd_account_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "add", account_add },
		{ "ls", account_ls },
		{ "rotate", account_rotate },
		{ "enable", account_change },
		{ "disable", account_change },
		{ "allow", account_allow },
		{ "disallow", account_allow },
		{ "rm", account_change },
		{ 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_account = {
	"account",
	"add NAME [OPTION...]\n"
	"ls\n"
	"rotate NAME --key N [OPTION...]\n"
	"enable|disable NAME\n"
	"allow|disallow NAME FN...\n"
	"rm NAME",
	"manage accounts of the HTTP front",
	cmd_account_run,
	"deferred_owner",
	"add, ls, rotate, enable, disable, allow, disallow and rm",
};
