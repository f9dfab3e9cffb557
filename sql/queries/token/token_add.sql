-- token_add: add a token of the JSON API.
-- params: token text, sha256 bytea, may text, functions text, queues text, expires_ms int8?,
--   user text
-- returns: ignored
-- $3 to $5 have commas between the names. $4 and $5 NULL: any. $6 NULL: without end.
-- Locks: none but of the row added
select deferred.__token_add($1::text, $2::bytea, string_to_array($3::text, ','),
                            string_to_array($4::text, ','), string_to_array($5::text, ','),
                            $6::int8),
       deferred.__act_note($7::text || ': deferred token add', 'add', settings => json_strip_nulls(
           json_build_object('token', $1, 'may', $3, 'functions', $4, 'queues', $5,
                             'expires_ms', $6)))
