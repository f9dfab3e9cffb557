# SPDX-License-Identifier: MIT
# defer(), finish() and extend() on connections of DBI, to the database DEFERRED_TEST_DB.
# tests/programs/test_library_perl.py starts it.
use v5.14;
use strict;
use warnings;
use utf8;
use DBI;
use Deferred::Program 'defer', 'function';
use Deferred::Test;
use Test::More;

my $dsn = 'dbi:Pg:' . join ';', split ' ', $ENV{DEFERRED_TEST_DB};
my $dbh = DBI->connect($dsn, undef, undef, { AutoCommit => 0, RaiseError => 1, PrintError => 0 });
my $other = DBI->connect($dsn, undef, undef, { RaiseError => 1 });

sub job { return $other->selectrow_hashref('select * from deferred.job where id = ?', undef, $_[0]) }

my $id = defer($dbh, resize => { owner => 'Größe 日本', n => 1 }, { label => 'Ä', delay => '5min' });
like $id, qr/^\d+\z/, 'defer returns the id';
is job($id), undef, 'and does not commit';
$dbh->commit;
is_deeply [ @{ job($id) }{qw(fn label state)} ], [ 'resize', 'Ä', 'delayed' ], 'the job is there after the commit';
is $other->selectrow_array(q(select params ->> 'owner' from deferred.__deferred where id = ?), undef, $id), 'Größe 日本',
    'params have their characters';
$id = defer($dbh, 'bare');
$dbh->rollback;
is job($id), undef, 'a rollback undoes it';

is eval { defer($dbh, resize => {}, { colour => 'red' }); 1 }, undef, 'a wrong option is refused';
like $@, qr/colour/, 'and named';
$dbh->rollback;
my $silent = DBI->connect($dsn, undef, undef, { RaiseError => 0, PrintError => 0 });
is eval { defer($silent, resize => {}, { colour => 'red' }); 1 }, undef, 'also without RaiseError';
like $@, qr/colour/, 'with the text of the server';
$silent->{pg_enable_utf8} = 0;
$id = defer($silent, plain => [ 'ö', "\x{e9}", undef ], { label => "\x{e9}t\x{e9}" });
is job($id)->{label}, 'été', 'a connection that has bytes instead of characters gets the same text';

# A claimed message has an id and a receipt, as the job of a function has.
$other->do(q(select deferred.defer(null, '{}', '{"queue": "orders"}')));
my ($job, $receipt) = $other->selectrow_array(q(select id, receipt from deferred.claim('orders')));
my %claimed = (id => $job, receipt => $receipt);
function extends => sub { $_[1]->extend($dbh, '10min') };
function finishes => sub { $_[1]->finish($dbh, { said => 'Größe' }); undef };

my $done = call_function(extends => {}, %claimed);
is $done->outcome, 'ok', 'extend extends' or diag $done->error;
ok $other->selectrow_array(q(select ? > now() + interval '9min'), undef, $done->result), 'and returns the end';
$dbh->rollback;
is call_function(finishes => {}, %claimed)->outcome, 'ok', 'finish finishes';
is job($job)->{state}, 'claimed', 'and does not commit';
$dbh->rollback;
is job($job)->{state}, 'claimed', 'a rollback undoes it';
call_function(finishes => {}, %claimed);
$dbh->commit;
is job($job)->{state}, 'done', 'the job is done after the commit';
is $other->selectrow_array('select result from deferred.my_job where id = ?', undef, $job), '{"said":"Größe"}',
    'with its result';
$done = call_function(finishes => {}, %claimed);
is $done->outcome, 'failed', 'a receipt that is not valid any more fails';
$dbh->rollback;
$done = call_function(finishes => {}, %claimed, receipt => '9223372036854775807');
like $done->error, qr/receipt/, 'and is named';
$dbh->rollback;

done_testing;
