# Turns SQL files into C. Writes sql.c, sql.h and rows/SUBJECT.h into the folder that -v to=FOLDER/ names.
#
#   queries/SUBJECT/NAME.sql      becomes `const struct sql_statement sql_NAME`, and what its head declares
#   migrations/NNNN_WHAT.sql      becomes an element of sql_migrations[]
#   functions/SUBJECT/NAME.sql    becomes an element of sql_sources[] with the name "functions/NAME"
#   views/NAME.sql                becomes an element of sql_sources[] with the name "views/NAME"
#
# The line `-- oldest: N` in a migration: programs that bring schema version N, or a later one, work with the schema
# after it. Without the line only programs that bring the migration do.
#
# In a migration the comment above `create table` or `create type`, and that above or behind each column, also become
# comments of the database.
#
# The head of a query declares its parameters and the columns of its rows. A list goes on while its lines end with a
# comma:
#
#   -- NAME: purpose.
#   -- params: ids int8[], within_ms int8?                  or: none
#   -- returns: id int8, said text?, finished timestamptz   or: nothing (no row), ignored (a row of no use)
#   -- returns: as OTHER, seen int8                         the columns of OTHER first
#
# "?" marks what may be NULL. A text is NULL then; other values have a member has_NAME, and are parameters by pointer.
# Text may always be NULL as a parameter. For each query, rows/SUBJECT.h has:
#
#   struct NAME_row NAME_row(res, i)             row i; texts lie in the result. With "as OTHER": the further columns
#   NAME_at_COLUMN                               where that column is, for tables that name the columns they show
#   int NAME_exec(pg, parameters, &res, err)     send the query; without res where rows are ignored
#   int NAME_one(pg, parameters, &row, err)      where no column is text: row 0, and zeros where there is none
#
# Only binary results have timestamptz (microseconds since 2000), tid and bytea. The format of other types does not
# matter.
# tests/sql/test_heads.py compares the heads with what the server says.
BEGIN {
	head_of["text"] = "const char *"; head_of["json"] = "const char *"; head_of["bytea"] = "const char *"
	head_of["int4"] = "int32_t "; head_of["int8"] = "int64_t "
	head_of["bool"] = "bool "; head_of["float8"] = "double "
	head_of["timestamptz"] = "int64_t "; head_of["tid"] = "int64_t "; head_of["void"] = ""
	column_of["int4"] = "int64_t " # as pg_int() returns it, so that printing needs no second format
	array_of["text[]"] = "const char *const *"; array_of["int4[]"] = "const int32_t *"
	array_of["int8[]"] = "const int64_t *"
	getter["int4"] = getter["int8"] = getter["timestamptz"] = "pg_int"; getter["tid"] = "pg_tid"
	getter["bool"] = "pg_bool"; getter["float8"] = "pg_float"
	header = to "sql.h"; code = to "sql.c"
	made = "/* made by sql/embed.awk */"
	print made "\n#ifndef SQL_H\n#define SQL_H\n" > header
	print "struct sql_statement { const char *name, *text; };" > header
	print "struct sql_migration { int version, oldest; const char *name, *text; };" > header
	print "extern const struct sql_migration sql_migrations[]; /* ends with version 0 */" > header
	printf "extern const struct sql_statement sql_sources[]; " > header
	print "/* functions, then views; ends with name NULL */\n" > header
	print made "\n#include \"sql.h\"\n\n#include <stddef.h>\n" > code
}
function fail(why) {
	print file ": " why > "/dev/stderr"
	failed = 1
	exit 1
}
# Splits a list into name[], type[] and null[]. Returns how many there are.
function parse(list, name, type, null,    n, i, part) {
	if (list == "") return 0
	n = split(list, part, / *, */)
	for (i = 1; i <= n; i++) {
		if (split(part[i], word, / +/) != 2) fail("cannot read '" part[i] "' in the head")
		name[i] = word[1]
		null[i] = sub(/\?$/, "", word[2])
		type[i] = word[2]
	}
	return n
}
# The columns of a row: a struct and its reader. Sets columns, has_text and is_binary of the query.
function emit_row(base, list,    n, i, first, other, members, reads, places) {
	has_text[base] = is_binary[base] = first = 0
	if (list == "nothing" || list == "ignored") { ignored[base] = 1; return }
	if (list ~ /^as /) {
		other = list
		sub(/^as /, "", other); sub(/,.*/, "", other)
		if (!(other in columns)) fail("the head names " other ", which comes later or is not there")
		first = columns[other]; has_text[base] = has_text[other]; is_binary[base] = is_binary[other]
		if (!sub(/^[^,]*, */, "", list)) list = ""
	}
	n = parse(list, name, type, null)
	columns[base] = first + n
	if (n == 0) return
	for (i = 1; i <= n; i++) {
		if (!(type[i] in head_of)) fail("no column can be of type " type[i])
		if (type[i] == "void") continue
		places = places (places ? ", " : "") base "_at_" name[i] (i == 1 ? " = " first : "")
		if (type[i] ~ /^(timestamptz|tid|bytea)$/) is_binary[base] = 1
		members = members "\t" (type[i] in column_of ? column_of[type[i]] : head_of[type[i]]) name[i] ";\n"
		at = "(res, i, " first + i - 1
		if (type[i] ~ /^(text|json|bytea)$/) {
			has_text[base] = 1
			len = type[i] == "text" ? "NULL" : "&row." name[i] "_len"
			if (type[i] != "text") members = members "\tsize_t " name[i] "_len;\n"
			reads = reads "\trow." name[i] " = " (null[i] ? "pg_null" at ") ? NULL : " : "")
			reads = reads "pg_text" at ", " len ");\n"
		} else {
			if (null[i]) {
				members = members "\tbool has_" name[i] ";\n"
				reads = reads "\trow.has_" name[i] " = !pg_null" at ");\n"
			}
			reads = reads "\trow." name[i] " = " getter[type[i]] at ");\n"
		}
	}
	if (members == "") { ignored[base] = 1; return }
	print "\nstruct " base "_row {\n" members "};" > rows
	print "enum { " places " };" > rows
	print "static inline struct " base "_row " base "_row(const struct pg_result *res, size_t i)\n{" > rows
	print "\tstruct " base "_row row = { 0 };\n\n" reads "\treturn row;\n}" > rows
}
# The functions that bind parameters and send. None where a parameter is an array that callers fill column by column.
function emit_exec(base, list,    n, i, declared, binds, passed, format) {
	n = parse(list, name, type, null)
	for (i = 1; i <= n; i++) {
		value = name[i]
		passed = passed ", " value
		if (type[i] in array_of) {
			declared = declared ", " array_of[type[i]] value ", size_t " value "_len"
			passed = passed ", " value "_len"
			binds = binds "\tpg_arg_" substr(type[i], 1, length(type[i]) - 2)
			binds = binds "_array(&args, " value ", NULL, " value "_len);\n"
		} else if (!(type[i] in head_of)) {
			return
		} else if (type[i] == "bytea") {
			declared = declared ", const void *" value ", size_t " value "_len"
			passed = passed ", " value "_len"
			binds = binds "\tpg_arg_bytea(&args, " value ", " value "_len);\n"
		} else if (null[i] && head_of[type[i]] !~ /\*/) {
			declared = declared ", const " head_of[type[i]] "*" value
			binds = binds "\tif (" value ")\n\t\tpg_arg_" type[i] "(&args, *" value ");\n"
			binds = binds "\telse\n\t\tpg_arg_null(&args);\n"
		} else {
			declared = declared ", " head_of[type[i]] value
			binds = binds "\tpg_arg_" type[i] "(&args, " value
			binds = binds (type[i] == "json" ? ", " value " ? strlen(" value ") : 0" : "") ");\n"
		}
	}
	format = is_binary[base] ? "PG_BINARY" : "PG_TEXT"
	print "\nstatic inline int " base "_exec(struct pg *pg" declared \
		(ignored[base] ? "" : ", struct pg_result **res") ", struct deferred_error *err)\n{" > rows
	print (ignored[base] ? "\tstruct pg_result *res;\n" : "") "\tstruct pg_args args;\n\tint rc;\n" > rows
	print "\tpg_args_init(&args);\n" binds "\trc = pg_exec(pg, &sql_" base ", &args, " format ", " \
		(ignored[base] ? "&" : "") "res, err);\n\tpg_args_clear(&args);" > rows
	print (ignored[base] ? "\tpg_result_free(res);\n" : "") "\treturn rc;\n}" > rows
	if (ignored[base] || has_text[base] || as_other) return
	printf "static inline int %s_one(struct pg *pg%s", base, declared > rows
	print ", struct " base "_row *row, struct deferred_error *err)\n{" > rows
	print "\tstruct pg_result *res;\n\tint rc = " base "_exec(pg" passed ", &res, err);\n" > rows
	print "\t*row = rc == 0 && pg_rows(res) > 0 ? " base "_row(res, 0) : (struct " base "_row){ 0 };" > rows
	print "\tpg_result_free(res);\n\treturn rc;\n}" > rows
}
# The head of a query has been read.
function flush_head(    i, n, path, subject) {
	if (!("params" in head) || !("returns" in head)) fail("the head lacks a line 'params:' or 'returns:'")
	n = split(file, path, "/")
	subject = path[n - 1]
	rows = to "rows/" subject ".h"
	if (!(rows in opened)) {
		opened[rows] = "ROWS_" toupper(subject) "_H"
		print made "\n#ifndef " opened[rows] "\n#define " opened[rows] > rows
		print "\n#include \"port/pg.h\"\n\n#include <string.h>" > rows
	}
	as_other = head["returns"] ~ /^as /
	emit_row(base, head["returns"])
	emit_exec(base, head["params"] == "none" ? "" : head["params"])
}
function flush_file() {
	if (file == "") return
	print ";" > code
	if (kind == "migrations")
		migrations = migrations "\t{ " (num + 0) ", " (oldest + 0) ", \"" what "\", " text " },\n"
	else if (kind == "queries") {
		print "const struct sql_statement sql_" base " = { \"" base "\", " text " };" > code
		print "extern const struct sql_statement sql_" base ";" > header
	} else sources = sources "\t{ \"" kind "/" base "\", " text " },\n"
}
FNR == 1 {
	flush_file()
	file = FILENAME
	base = file; sub(/.*\//, "", base); sub(/\.sql$/, "", base)
	# The last folder of one of these names.
	kind = file
	sub(/.*\/(queries|migrations|functions|views)\//, "&/", kind)
	sub(/\/\/.*/, "", kind); sub(/.*\//, "", kind)
	num = base; sub(/_.*/, "", num)
	what = base; sub(/^[0-9]*_/, "", what)
	text = "sql_text_" kind "_" base
	oldest = 0
	started = kind != "queries"
	split("", head); list = ""
	print "static const char " text "[] =" > code
	if (!started) print "\t\t\"\"" > code
}
# The opening comment of a query is for its callers, not for the server.
!started && ($0 ~ /^--/ || $0 == "") {
	if (match($0, /^-- (params|returns): /)) {
		list = substr($0, 4, RLENGTH - 5)
		head[list] = substr($0, RLENGTH + 1)
	} else if (list != "") head[list] = head[list] substr($0, 4)
	if (list != "" && head[list] !~ /,$/) list = ""
	next
}
function emit(line) {
	gsub(/\\/, "&&", line)
	gsub(/"/, "\\\"", line)
	print "\t\t\"" line "\\n\"" > code
}
function remark(what) {
	gsub(/'/, "''", said)
	if (said != "") remarks[++remarked] = "comment on " what " is '" said "';"
	said = ""
}
{
	if (!started) flush_head()
	started = 1
	emit($0)
}
kind == "migrations" && /^-- oldest: [0-9]+$/ { oldest = $3 }
kind == "migrations" && /^create (table|type) deferred[.][^;]*\($/ {
	table = $3
	remark($2 " " table)
}
table == "" && /^-- / { said = said (said == "" ? "" : " ") substr($0, 4) }
table == "" && !/^-- / { said = "" }
table != "" && /^    -- / { said = said (said == "" ? "" : " ") substr($0, 8) }
table != "" && /^    [a-z_0-9]+ / {
	if (match($0, /  -- /)) said = substr($0, RSTART + 5)
	if ($1 !~ /^(check|primary|unique)$/) remark("column " table "." $1)
	said = ""
}
/^\)/ { table = "" }
table == "" && /;$/ && remarked { for (i = 1; i <= remarked; i++) emit(remarks[i]); remarked = 0 }
END {
	if (failed) exit 1
	flush_file()
	print "\nconst struct sql_migration sql_migrations[] = {\n" migrations "\t{ 0, 0, 0, 0 }\n};" > code
	print "\nconst struct sql_statement sql_sources[] = {\n" sources "\t{ NULL, NULL }\n};" > code
	print "\n#endif" > header
	for (rows in opened) print "\n#endif" > rows
}
