#!/bin/sh
# Makes the secrets of compose.yaml in the folder secrets next to this file. It leaves existing ones
# alone. Run it as root: the programs read only keys that belong to root or to their own user.
set -eu
umask 027
cd "$(dirname "$0")"
mkdir -p secrets
cd secrets

# A connection service file of libpq for each role, with its password.
for role in postgres worker front operator; do
	[ -s "$role" ] || printf '[deferred]\nhost=db\ndbname=app\nuser=%s\npassword=%s\n' \
		"$role" "$(openssl rand -hex 24)" > "$role"
done
# The image of PostgreSQL wants the password alone.
sed -n 's/^password=//p' postgres > postgres.password
# The key that encrypts the keys of HTTP accounts.
[ -s http.key ] || openssl rand -base64 32 > http.key
# The key and the certificate of the operators' pages.
if ! [ -s web.pem ]; then
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 > web.new
	openssl req -x509 -key web.new -days 825 -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost >> web.new
	mv web.new web.pem
fi
