-- token_rotate: replace a token of the JSON API by another one.
-- params: token text, sha256 bytea, grace_ms int8, expires_ms int8?, user text
-- returns: ignored
-- $4 NULL: the time at which it expires stays.
-- Locks: the row of the token
select deferred.__token_rotate($1::text, $2::bytea, $3::int8, $4::int8),
       deferred.__act_note($5::text || ': deferred token rotate', 'rotate',
                           settings => json_strip_nulls(json_build_object('token', $1,
                               'grace_ms', $3, 'expires_ms', $4)))
