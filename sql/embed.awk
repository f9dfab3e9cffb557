# Turns the files of sql/queries and sql/migrations into C: a header of declarations (-v mode=h) or the
# definitions (-v mode=c). A query NAME.sql becomes `const struct sql_statement sql_NAME`; migration
# NNNN_what.sql becomes an element of sql_migrations[].
function flush_file() {
	if (file == "") return
	if (mode == "c") {
		if (is_migration) migrations = migrations "\t{ " (num + 0) ", \"" what "\", sql_text_" base " },\n"
		print ";"
		if (!is_migration) print "const struct sql_statement sql_" base " = { \"" base "\", sql_text_" base " };"
	}
	else if (!is_migration) print "extern const struct sql_statement sql_" base ";"
}
BEGIN {
	print "/* made by sql/embed.awk */"
	if (mode == "h") {
		print "#ifndef SQL_H\n#define SQL_H\n"
		print "struct sql_statement { const char *name, *text; };"
		print "struct sql_migration { int version; const char *name, *text; };"
		print "extern const struct sql_migration sql_migrations[]; /* ends with version 0 */\n"
	} else print "#include \"sql.h\"\n"
}
FNR == 1 {
	flush_file()
	file = FILENAME
	base = file; sub(/.*\//, "", base); sub(/\.sql$/, "", base)
	is_migration = file ~ /migrations\//
	num = base; sub(/_.*/, "", num)
	what = base; sub(/^[0-9]*_/, "", what)
	started = is_migration
	if (mode == "c") print "static const char sql_text_" base "[] ="
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
	if (mode == "c") print "\nconst struct sql_migration sql_migrations[] = {\n" migrations "\t{ 0, 0, 0 }\n};"
	else print "\n#endif"
}
