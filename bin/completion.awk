# SPDX-License-Identifier: MIT
# Makes the completion of one program of what it says of its tables (PROGRAM --describe, lib/program/completion.h).
#     awk -v shell=bash|zsh -f bin/completion.awk

BEGIN { FS = "\t" }

# Quoted for either shell.
function quoted(text) {
	gsub(/'/, "'\\''", text)
	return "'" text "'"
}

function add_place(place) {
	if (place in known)
		return
	known[place] = 1
	places[++places_len] = place
}

{
	if (!program)
		program = $1
	add_place($1)
	takes[$1, $3] = $4
	what[$1, $3] = $5
	if ($2 == "word")
		words[$1] = words[$1] (words[$1] ? " " : "") $3
	else
		options[$1] = options[$1] (options[$1] ? " " : "") $3
}

# ---- bash

function bash(   i, k, n, list) {
	print "# Completion of " program " for bash, made of its option tables."
	print "_" program "_lists()\n{\n\tcase $1 in"
	for (i = 1; i <= places_len; i++) {
		printf "\t%s) words=%s ", quoted(places[i]), quoted(words[places[i]])
		print "options=" quoted(options[places[i]]) " ;;"
	}
	print "\t*) words= options= ;;\n\tesac\n}\n"
	print "# What an option takes where it stands."
	print "_" program "_takes()\n{\n\tcase \"$1 $2\" in"
	for (i = 1; i <= places_len; i++) {
		n = split(options[places[i]], list, " ")
		for (k = 1; k <= n; k++)
			if (takes[places[i], list[k]])
				printf "\t%s) takes=%s ;;\n", quoted(places[i] " " list[k]),
				       quoted(takes[places[i], list[k]])
	}
	print "\t*) takes= ;;\n\tesac\n}\n"
	print "_" program "()\n{"
	print "\tlocal IFS=$' \\t\\n'"
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} place=" program " pending= prefix= takes words options word i"
	print "\tCOMPREPLY=()"
	print "\tfor ((i = 1; i < COMP_CWORD; i++)); do"
	print "\t\tword=${COMP_WORDS[i]}"
	print "\t\tif [[ $pending ]]; then"
	print "\t\t\t# Where words end at \"=\", an option and its value come as three."
	print "\t\t\t[[ $word == = ]] || pending="
	print "\t\t\tcontinue"
	print "\t\tfi"
	print "\t\t_" program "_takes \"$place\" \"$word\""
	print "\t\t_" program "_lists \"$place\""
	print "\t\tif [[ $takes ]]; then"
	print "\t\t\tpending=$word"
	print "\t\telif [[ \" $words \" == *\" $word \"* ]]; then"
	print "\t\t\tplace+=\" $word\""
	print "\t\tfi"
	print "\tdone"
	print "\tif [[ $cur == --*=* ]]; then"
	print "\t\tpending=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}"
	print "\telif [[ $pending && $cur == = ]]; then"
	print "\t\tcur="
	print "\tfi"
	print "\t_" program "_lists \"$place\""
	print "\t_" program "_takes \"$place\" \"$pending\""
	print "\tcase $pending:$takes in"
	print "\t:*) [[ $cur == -* ]] && words=$options ;;"
	print "\t*:'<file>' | *:'<folder>')"
	print "\t\tcompopt -o filenames 2>/dev/null"
	print "\t\t[[ $takes == '<file>' ]] && i=-f || i=-d"
	print "\t\tmapfile -t COMPREPLY < <(compgen $i -P \"$prefix\" -- \"$cur\")"
	print "\t\treturn ;;"
	print "\t*:'<text>' | *:) words= ;;"
	print "\t*) words=${takes//|/ } ;;"
	print "\tesac"
	print "\tfor word in $words; do"
	print "\t\t[[ $word == \"$cur\"* ]] && COMPREPLY+=(\"$prefix$word\")"
	print "\tdone"
	print "}"
	print "complete -F _" program " " program
}

# ---- zsh

function name_of(place) {
	gsub(/[^A-Za-z0-9_]/, "_", place)
	return "_" place
}

function zsh_option(place, option,   t, text) {
	t = takes[place, option]
	text = what[place, option]
	gsub(/[][\\]/, "\\\\&", text)
	text = text ? "[" text "]" : ""
	if (!t)
		return quoted(option text)
	if (t == "<file>")
		return quoted(option "=" text ":file:_files")
	if (t == "<folder>")
		return quoted(option "=" text ":folder:_files -/")
	if (t == "<text>")
		return quoted(option "=" text ":value: ")
	gsub(/\|/, " ", t)
	return quoted(option "=" text ":word:(" t ")")
}

function zsh_place(place,   n, k, list) {
	print name_of(place) "()\n{"
	print "\tlocal curcontext=$curcontext state line\n\tlocal -a commands\n\ttypeset -A opt_args"
	n = split(words[place], list, " ")
	if (n > 0) {
		print "\tcommands=("
		for (k = 1; k <= n; k++)
			print "\t\t" quoted(list[k] (what[place, list[k]] ? ":" what[place, list[k]] : ""))
		print "\t)"
	}
	print "\t_arguments -C \\"
	n = split(options[place], list, " ")
	for (k = 1; k <= n; k++)
		print "\t\t" zsh_option(place, list[k]) " \\"
	if (!words[place]) {
		print "\t\t'*:argument: '\n}\n"
		return
	}
	print "\t\t'1: :->word' '*:: :->rest' && return"
	print "\tcase $state in\n\tword) _describe command commands ;;\n\trest)\n\t\tcase $words[1] in"
	n = split(words[place], list, " ")
	for (k = 1; k <= n; k++)
		if ((place " " list[k]) in known)
			print "\t\t" list[k] ") " name_of(place " " list[k]) " ;;"
	print "\t\tesac ;;\n\tesac\n}\n"
}

function zsh(   i) {
	print "#compdef " program
	print "# Completion of " program " for zsh, made of its option tables."
	for (i = 1; i <= places_len; i++)
		zsh_place(places[i])
	print "if [[ $funcstack[1] == _" program " ]]; then\n\t_" program " \"$@\""
	print "else\n\tcompdef _" program " " program "\nfi"
}

END {
	if (!program) {
		print "completion.awk: the program has said nothing" > "/dev/stderr"
		exit 1
	}
	if (shell == "zsh")
		zsh()
	else
		bash()
}
