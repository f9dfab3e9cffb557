-- Attempts of a job, where neither the job nor its queue says. Programs that claim by SQL have no
-- config file. It is the default of the setting max_attempts.
create or replace function deferred.__max_attempts() returns integer
language sql immutable
as $$ select 25 $$;
