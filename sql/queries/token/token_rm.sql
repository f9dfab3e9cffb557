-- token_rm: remove a token of the JSON API; its jobs stay.
-- params: token text, user text
-- returns: ignored
-- Locks: the row of the token
select deferred.__token_rm($1::text),
       deferred.__act_note($2::text || ': deferred token rm', 'remove',
                           settings => json_build_object('token', $1))
