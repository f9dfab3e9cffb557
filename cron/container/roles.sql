-- Creates the logins of compose.yaml after the migration, and sets their passwords. The passwords
-- come from the secrets, so they are neither here nor in a command line.
\set ON_ERROR_STOP on
set client_min_messages = warning;
\set worker `sed -n 's/^password=//p' "$SECRETS/worker"`
\set front `sed -n 's/^password=//p' "$SECRETS/front"`
\set operator `sed -n 's/^password=//p' "$SECRETS/operator"`

select format('create role %I login', name)
  from unnest(array['worker', 'front', 'operator']) name
 where to_regrole(name) is null
\gexec
alter role worker password :'worker';
alter role front password :'front';
alter role operator password :'operator';
grant deferred_worker to worker;
grant deferred_http to front;
grant deferred_operator to operator;
