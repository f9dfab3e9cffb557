# SPDX-License-Identifier: MIT
# Functions called by Deferred::Test, as the tests of an application call them.
use v5.14;
use strict;
use warnings;
use utf8;
use Test::More;
use Deferred::Job;
use Deferred::Program;
use Deferred::Test;

my @hooks;

before_job { push @hooks, 'before ' . $_[0]->fn };
after_job { push @hooks, 'after ' . $_[0]->fn };

function resize => timeout => '10s', max_attempts => 5, sub {
    my ($params, $job) = @_;
    $job->progress(0, 2, 'fetching');
    $job->log('hello', 'debug');
    $job->log('usual');
    $job->defer(send_mail => { to => $params->{owner}, subject => 'Größe' }, { delay => '5min' });
    $job->defer('bare');
    return { width => 640, attempt => $job->attempt };
};

my $done = call_function(resize => { owner => 'ann@example.org' }, attempt => 2);
is $done->outcome, 'ok', 'a function that returns is ok';
is_deeply $done->data, { width => 640, attempt => 2 }, 'its result is data';
is_deeply $done->progress, [ { done => 0, total => 2, text => 'fetching' } ], 'progress is kept';
is_deeply $done->logs, [ { level => 4, text => 'hello' }, { level => 3, text => 'usual' } ], 'logs are kept';
is $done->deferred->[0]->fn, 'send_mail', 'a deferred job has its function';
is_deeply $done->deferred->[0]->params, { to => 'ann@example.org', subject => 'Größe' }, 'its params';
is_deeply $done->deferred->[0]->options, { delay => '5min' }, 'and its options';
is_deeply $done->deferred->[1]->params, {}, 'params of a job deferred without any are an empty object';
is_deeply \@hooks, [ 'before resize', 'after resize' ], 'hooks run around the function';

function members => sub {
    my ($params, $job) = @_;
    return { map { ($_ => scalar $job->$_) }
            qw(id fn attempt label receipt created traceparent tick previous_tick parents left stop_asked) };
};
my %given = (
    id => '9223372036854775807', receipt => '-9223372036854775808', label => 'Größe', created => 1760000000,
    tick => 1760000100, previous_tick => 1760000050, traceparent => '00-' . 'a' x 32 . '-' . 'b' x 16 . '-01',
    parents => { pack => { id => 17, outcome => 'ok', result => 'three boxes' } }, stop => 1,
);
my $members = call_function('members', {}, %given, timeout => '10s')->data;
my $left = delete $members->{left};
ok $left > 0 && $left <= 10, 'the time left is that of the limit or less';
is delete $members->{stop_asked}, 1, 'a stop is seen';
is_deeply $members, { %given{qw(id receipt label created tick previous_tick traceparent parents)}, fn => 'members',
    attempt => 1 }, 'members of the job are those given';
$members = call_function('members')->data;
is_deeply [ @$members{qw(left tick label)} ], [ undef, undef, '' ], 'members that were not given are empty';
is_deeply $members->{parents}, {}, 'a job that waited for none has no parents';

my $dies;
before_job { die "before\n" if ($dies // '') eq 'before' };
after_job { die "after\n" if ($dies // '') eq 'after' };
function hooked => sub { 'ran' };
$dies = 'before';
is_deeply [ @{ call_function('hooked') }{qw(outcome error result)} ], [ 'failed', "before\n", undef ],
    'a hook before the job that dies fails the attempt';
$dies = 'after';
$done = call_function('hooked');
is $done->result, 'ran', 'a hook after the job that dies does not';
is_deeply $done->logs, [ { level => 1, text => "after_job: after\n" } ], 'but is logged';
undef $dies;

my $charged = 0;
function charge => sub {
    my ($params, $job) = @_;
    my $charge = sub { $charged++; return { receipt => 4711 } };
    $job->step(charge => $charge);
    $job->save_step(page => ($job->steps->{page} // 0) + 1);
    return [ $job->step(charge => $charge)->{receipt}, $job->step(old => $charge), $job->steps->{page} ];
};
$done = call_function('charge', {}, steps => { old => undef, page => 7 });
is_deeply $done->data, [ 4711, undef, 8 ], 'a step has the saved value';
is_deeply $done->steps, { charge => { receipt => 4711 }, page => 8 }, 'the test sees what was saved';
is $charged, 1, 'its function is called once';

function setting => sub { $_[1]->setting('api') // 'none' };
is call_function('setting', {}, settings => { api => 'https://example.org' })->result, 'https://example.org',
    'a setting is read';
is call_function('setting')->result, 'none', 'a setting that is not there is undefined';

function verdict => sub {
    my ($params) = @_;
    my ($name, @arguments) = @$params;
    no strict 'refs';
    return &{"main::$name"}(@arguments);
};
for my $case ([ later => '1.5s' ], [ snooze => '2h' ], [ dead => 'gone' ], [ cancel => 'late' ],
    [ unready => 'no key' ]) {
    $done = call_function(verdict => $case);
    is $done->outcome, $case->[0], "$case->[0] ends with its outcome";
    is $done->result, undef, 'and without a result';
}
is call_function(verdict => [ later => '1.5s' ])->after, 1.5, 'the delay is in seconds';
is call_function(verdict => [ later => '1h 30min', 'busy' ])->error, 'busy', 'a reason is the error';
is call_function(verdict => [ dead => 'gone' ])->error, 'gone', 'so is that of a dead job';
$done = call_function(verdict => [ later => '30x' ]);
is $done->outcome, 'failed', 'a span with a wrong unit fails';
like $done->error, qr/span '30x' is not a number with a unit/, 'and names the span';

function text => sub { $_[0]{text} };
is call_function(text => { text => 'Größe 9' })->result, 'Größe 9', 'text is stored unchanged';
is call_function(text => { text => undef })->result, undef, 'undef is not stored';
is call_function(text => { text => 17 })->result, '17', 'a number is text';
is call_function(text => { text => Deferred::Job::json()->decode('true') })->result, 'true', 'true is JSON';
function file => sub { "Gr\xc3\xb6\xc3\x9fe" };
is call_function('file')->result, 'Größe', 'bytes that are UTF-8 already are not encoded twice';
function latin => sub { "Gr\xf6\xdfe" };
is call_function('latin')->result, 'Größe', 'characters without a flag are encoded';

sub deeper { die $_[0] }
function fail => sub { eval { die 'earlier' }; deeper($_[0]{text}) };
$done = call_function(fail => { text => 'boom' });
is $done->outcome, 'failed', 'an exception fails';
like $done->error, qr/^boom at \S+test\.t line \d+\.\n\tmain::deeper called at \S+test\.t line \d+\n/,
    'its error has the text, the place and the calls';
unlike $done->error, qr/earlier|Deferred::Program/, 'and nothing else';
is call_function(fail => { text => "short\n" })->error =~ s/\n.*//sr, 'short', 'a text without a place stays';
like call_function(fail => { text => { code => 5 } })->error, qr/^\{"code":5\}/, 'an exception that is data is JSON';
function code => sub { { code => sub { } } };
is call_function('code')->outcome, 'failed', 'a result without a JSON form fails';
is call_function('absent')->outcome, 'unready', 'a function that is not there is unready';
like call_function('absent')->error, qr/no function 'absent'/, 'and named';

is eval { function(resize => sub { }); 1 }, undef, 'a name is defined once';
is eval { function(other => timeout => '5 parsecs', sub { }); 1 }, undef, 'a wrong limit is refused';
is eval { function(other => time_out => '5s', sub { }); 1 }, undef, 'so is an unknown one';
is eval { function(other => timeout => '5s'); 1 }, undef, 'and a definition without a sub';

my %span = ('200ms' => 200, '5s' => 5000, '10min' => 600_000, '1.5h' => 5_400_000, '2 d' => 172_800_000,
    '1h30m' => 5_400_000, '1w' => 604_800_000, '0s' => 0, '2.5' => 2500);
is Deferred::Job::span_ms($_), $span{$_}, "span $_" for sort keys %span;
for my $wrong ('', 's', '5 x', '-5s', '5s ', '5ss', undef) {
    is eval { Deferred::Job::span_ms($wrong) }, undef, sprintf "span '%s' is refused", $wrong // 'undef';
}
is length Deferred::Job::cut('ö' x 8, 15), 14, 'text is cut between characters';
is length Deferred::Job::cut('ö' x 8, 16), 16, 'text that fits is not cut';

function insert => batch => 3, batch_wait => '500ms', sub {
    my ($jobs) = @_;
    return [ map { my $job = $_; $job->params->{wrong} ? sub { dead('no ' . $job->id) } : { id => $job->id } } @$jobs ];
};
my ($good, $bad) = call_many(insert => [ {}, { wrong => 1 } ], id => 7);
is_deeply [ $good->outcome, $good->data ], [ 'ok', { id => 7 } ], 'a job of a list has its result';
is_deeply [ $bad->outcome, $bad->error ], [ 'dead', 'no 8' ], 'and another one its outcome';
is call_function(insert => { wrong => 1 })->outcome, 'dead', 'a list may have one job';

done_testing;
