# Turns SQL files into C: a header of declarations (-v mode=h) or the definitions (-v mode=c).
#
#   queries/SUBJECT/NAME.sql      becomes `const struct sql_statement sql_NAME`
#   migrations/NNNN_WHAT.sql      becomes an element of sql_migrations[]
#   functions/SUBJECT/NAME.sql    becomes an element of sql_sources[] with the name "functions/NAME"
#   views/NAME.sql                becomes an element of sql_sources[] with the name "views/NAME"
function flush_file() {
	if (file == "") return
	if (mode == "c") {
		print ";"
		if (kind == "migrations") migrations = migrations "\t{ " (num + 0) ", \"" what "\", " text " },\n"
		else if (kind == "queries") print "const struct sql_statement sql_" base " = { \"" base "\", " text " };"
		else sources = sources "\t{ \"" kind "/" base "\", " text " },\n"
	}
	else if (kind == "queries") print "extern const struct sql_statement sql_" base ";"
}
BEGIN {
	print "/* made by sql/embed.awk */"
	if (mode == "h") {
		print "#ifndef SQL_H\n#define SQL_H\n"
		print "struct sql_statement { const char *name, *text; };"
		print "struct sql_migration { int version; const char *name, *text; };"
		print "extern const struct sql_migration sql_migrations[]; /* ends with version 0 */"
		print "extern const struct sql_statement sql_sources[]; /* functions, then views; ends with name NULL */\n"
	} else print "#include \"sql.h\"\n\n#include <stddef.h>\n"
}
FNR == 1 {
	flush_file()
	file = FILENAME
	base = file; sub(/.*\//, "", base); sub(/\.sql$/, "", base)
	# The last folder of one of these names.
	kind = file; sub(/.*\/(queries|migrations|functions|views)\//, "&/", kind); sub(/\/\/.*/, "", kind); sub(/.*\//, "", kind)
	num = base; sub(/_.*/, "", num)
	what = base; sub(/^[0-9]*_/, "", what)
	text = "sql_text_" kind "_" base
	started = kind != "queries"
	if (mode == "c") print "static const char " text "[] ="
}
mode == "c" {
	# The opening comment of a query is for readers, not for the server.
	if (!started && ($0 ~ /^--/ || $0 == "")) { if (FNR == 1) print "\t\"\""; next }
	started = 1
	line = $0
	gsub(/\\/, "&&", line)
	gsub(/"/, "\\\"", line)
	print "\t\"" line "\\n\""
}
END {
	flush_file()
	if (mode == "c") {
		print "\nconst struct sql_migration sql_migrations[] = {\n" migrations "\t{ 0, 0, 0 }\n};"
		print "\nconst struct sql_statement sql_sources[] = {\n" sources "\t{ NULL, NULL }\n};"
	}
	else print "\n#endif"
}
