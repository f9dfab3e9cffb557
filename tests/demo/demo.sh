#!/bin/sh
# `make demo`: mails deferred by a C program, by SQL and by the CLI, delivered by check_deferred that a
# real cron daemon starts, to a real SMTP server. Everything is private to this run and gone afterwards.
#
# cron runs in a mount namespace of its own, with our crontab in place of the machine's: that takes root.
# Where it cannot be had, check_deferred is started as cron would start it.
#
# With WEB=1 its database stays at the end, with the pages about it, until Ctrl-C.
set -eu
cd "$(dirname "$0")/../.."
top=$(pwd)
python=/usr/bin/python3

work=$(mktemp -d "${TMPDIR:-/tmp}/deferred-demo.XXXXXX")
chmod 711 "$work" # the server may run as another user
smtp= cron= web=
clean_up() {
	trap - EXIT INT TERM HUP
	for pid in $web $cron $smtp; do kill "$pid" 2> /dev/null && wait "$pid" 2> /dev/null || :; done
	$python -B tests/harness/pg.py stop "$work/pg" immediate > /dev/null 2>&1 || :
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

step=0 bold= plain=
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { step=$((step + 1)); printf '\n%s%d. %s%s\n' "$bold" $step "$*" "$plain"; }
show() { sed 's/^/     /'; }
# Each of these stops the demo when its command fails; a pipe would hide that.
run() { printf '   $ %s\n' "${*#build/bin/}" && out=$("$@") && printf '%s\n' "$out" | show; }
# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
	deadline=$(($(date +%s) + $1)) && shift
	until "$@"; do
		[ "$(date +%s)" -lt $deadline ] || return 1
		sleep 0.1
	done
}

say "A private PostgreSQL, a private SMTP server"
$python -B tests/harness/pg.py start "$work/pg"
export PGHOST="$work/pg" PGPORT=5432 PGUSER=deferred PGDATABASE=demo PGOPTIONS='-c client_min_messages=warning'
createdb demo
mkdir "$work/mail" "$work/etc"
$python -B tests/harness/smtpd.py --port 0 --dir "$work/mail" > "$work/smtp.out" 2> "$work/smtp.err" &
smtp=$!
wait_for 20 grep -q '^PORT ' "$work/smtp.out" || { cat "$work/smtp.err"; exit 1; }
port=$(sed -n 's/^PORT //p' "$work/smtp.out")
echo "   PostgreSQL $(psql -XAtc 'show server_version') listens in $work/pg, SMTP on port $port of loopback."

say "The config file and the schema"
# Plugins are loaded from a folder that nobody else can write to.
install -d -m 755 "$work/plugins" && install -m 755 build/plugins/*.so "$work/plugins"
export DEFERRED_CONFIG="$work/etc/deferred.conf"
(umask 077 && cat > "$DEFERRED_CONFIG") <<CONF
database { conninfo = "host=$work/pg port=5432 user=deferred dbname=demo" }
plugin_dir = "$work/plugins"
pidfile = "$work/etc/defer_demo"
allow_root = 1 # of those who try this; on a machine that serves: user = "deferred"
mail {
    host = "127.0.0.1"
    port = $port
    from = "Demo <demo@example.org>"
    defer = 1
}
CONF
show < "$DEFERRED_CONFIG"
run build/bin/deferred migrate

say "Three mails are deferred, and a function that will crash"
id=$(build/tests/demo/demo zoe@example.org)
echo "   from C (tests/demo/demo.c): job $id"
cat > "$work/order.sql" <<'SQL'
begin;
create table shop_order (id int, customer text);
insert into shop_order values (4711, 'ann@example.org');
select deferred.defer('send_mail', '{"to": "ann@example.org", "subject": "Order 4711",
    "text": "Your order exists, or this mail does not: one transaction.\n"}');
commit;
SQL
echo "   from SQL, in the transaction of the application:"
show < "$work/order.sql"
id=$(psql -XAtq -v ON_ERROR_STOP=1 -f "$work/order.sql")
echo "   job $id"
echo "   from the shell (it prints the id):"
cli='{"to": [{"mail": "bob@example.org", "label": "Bob"}], "subject": "Hello Bob", "text": "From the command line.\n"}'
run build/bin/deferred add send_mail "$cli"
run build/bin/deferred add crash '{"signal": 11}' --max-attempts 1
run build/bin/deferred ls

line="* * * * * root $top/build/bin/check_deferred --config $DEFERRED_CONFIG --cnt 100 2>>$work/deferred.log"
drained() { [ "$(psql -XAtc 'select count(*) from deferred.__deferred_hot' 2>&1)" = 0 ]; }
quiet() { [ "$(psql -XAtc "select count(*) from pg_stat_activity where application_name like 'check_deferred%'")" = 0 ]; }

# The namespace has an empty /etc/crontab, our own folders of crontabs, and a /run of its own for cron's pid file.
fenced='set -e
mount --bind "$1/cron.d" /etc/cron.d
mkdir -p /var/spool/cron/crontabs
mount --bind "$1/spool" /var/spool/cron/crontabs
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
mount -t tmpfs tmpfs /run
shift; exec "$@"'
mkdir -p "$work/cron/cron.d" "$work/cron/spool"
# What a private cron daemon lacks here; empty: nothing.
lacks=
[ "$(id -u)" = 0 ] || lacks='root'
command -v cron > /dev/null || lacks='the package cron'
[ -n "$lacks" ] || unshare -m sh -c "$fenced" sh "$work/cron" true 2> /dev/null || lacks='unshare -m, which this container or kernel refuses'
if [ -z "$lacks" ]; then
	say "cron starts check_deferred"
	printf 'MAILTO=""\n%s\n' "$line" > "$work/cron/cron.d/deferred"
	chmod 644 "$work/cron/cron.d/deferred"
	echo "$line" | show
	# With libfaketime cron's clock runs 30 times as fast; jobs see real time. Else the minute is waited for.
	fake=$(ls /usr/lib/*/faketime/libfaketime.so.1 2> /dev/null | head -n 1)
	if [ -n "$fake" ]; then
		echo "   (cron's clock runs 30 times as fast, so that a minute takes two seconds)"
		unshare -m sh -c "$fenced" sh "$work/cron" env LD_PRELOAD="$fake" FAKETIME='+0 x30' cron -f &
	else
		unshare -m sh -c "$fenced" sh "$work/cron" cron -f &
	fi
	cron=$!
	left=75
	[ -n "$fake" ] || echo "   (waiting for the next minute, up to 60 s)"
	until drained; do
		[ $left -gt 0 ] || { echo "   cron did not start it within 75 s"; cat "$work/deferred.log"; exit 1; }
		[ -n "$fake" ] || [ ! -t 1 ] || printf '\r   the next minute begins in %2d s ' $((60 - $(date +%s) % 60))
		sleep 1
		left=$((left - 1))
	done
	[ -n "$fake" ] || [ ! -t 1 ] || printf '\r%40s\r' ''
	kill $cron && wait $cron 2> /dev/null || :
	cron=
else
	say "check_deferred, started here as cron would (a private cron daemon needs $lacks)"
	printf '   $ check_deferred --config %s --cnt 100\n' "$DEFERRED_CONFIG"
	env -i PATH=/usr/bin:/bin HOME=/ build/bin/check_deferred --config "$DEFERRED_CONFIG" --cnt 100 2>> "$work/deferred.log"
	drained || { echo "   jobs are left:"; build/bin/deferred ls; cat "$work/deferred.log"; exit 1; }
fi
wait_for 10 quiet || :
echo "   its log:"
show < "$work/deferred.log"

say "What the SMTP server received"
$python -B tests/demo/show_mails.py "$work/mail" | show
[ "$(ls "$work/mail" | grep -c '\.eml$')" = 3 ] || { echo "   three mails were expected"; exit 1; }

say "What the database knows: every attempt has a row in __deferred_log"
psql -X -P footer=off -c "
	select l.job_id, d.fn, d.label, l.attempt, l.outcome, l.signal, l.run_us::bigint / 1000 as run_ms,
	       split_part(l.error, E'\n', 1) as error
	from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id order by l.finished_at" | show
if [ -n "${WEB:-}" ]; then
	say "Its pages"
	build/bin/deferred_web --config "$DEFERRED_CONFIG" --listen 127.0.0.1:0 --auth none > "$work/web.log" 2>&1 &
	web=$!
	wait_for 20 grep -q 'listening on' "$work/web.log" || { cat "$work/web.log"; exit 1; }
	url=$(sed -n 's/.*listening on \([0-9.:]*\).*/http:\/\/\1\//p' "$work/web.log")
	printf '   %s   for whoever is on this machine, to be looked at\n   Ctrl-C ends them, and leaves nothing behind.\n' "$url"
	trap 'exit 0' INT
	wait $web || { cat "$work/web.log"; exit 1; }
	exit 0
fi
printf '\nDone. Next: make && eval "$(make -s pg)" gives you a server to try things with; see README.md.\n%s\n%s\n' \
	'make demo WEB=1 keeps the database of this demo at the end, and shows its pages;' 'make demo-web shows those of a shop with a week of history.'
