# SPDX-License-Identifier: MIT
# Whole programs, driven over descriptors 3 and 4.
use v5.14;
use strict;
use warnings;
use File::Temp 'tempdir';
use FindBin;
use IO::Handle;
use JSON::PP;
use POSIX ();
use Test::More;

my $folder = tempdir(CLEANUP => 1);
my $json = JSON::PP->new->utf8->allow_nonref->canonical;

# Starts a program of that text. Returns its pid, the pipe to it, and the pipe from it.
sub start {
    my ($text) = @_;
    open my $file, '>', "$folder/program.pl" or die;
    print $file "use strict; use warnings; use Deferred::Program;\n$text\nDeferred::Program->run(version => '7');\n";
    close $file;
    pipe my $there, my $to   or die;
    pipe my $from,  my $back or die;
    my $pid = fork // die;
    if ($pid == 0) {
        open STDOUT, '>', "$folder/out";
        open STDERR, '>&STDOUT';
        POSIX::dup2(POSIX::dup(fileno $there), 20);
        POSIX::dup2(POSIX::dup(fileno $back), 21);
        POSIX::dup2(20, 3);
        POSIX::dup2(21, 4);
        POSIX::close($_) for 5 .. 30;
        $ENV{DEFERRED_PROGRAM} = 1;
        exec $^X, "-I$FindBin::Bin/../lib", "$folder/program.pl" or POSIX::_exit(127);
    }
    $to->autoflush(1);
    return ($pid, $to, $from);
}

sub message {
    my ($from) = @_;
    my $line = <$from> // return;
    my $head = $json->decode($line);
    read $from, my $body, $head->{bytes} // 0;
    return { %$head, body => $body };
}

sub call {
    my ($to, $job, $fn, $params, %more) = @_;
    my %head = (job => "$job", fn => $fn, attempt => 1, receipt => '5', created_us => 1760000000123456,
        params => length $params, parents => 0, bytes => length $params, %more);
    print $to '{"type":"call",' . substr($json->encode(\%head), 1) . "\n$params";
}

sub output { open my $file, '<', "$folder/out" or die; local $/; return scalar <$file> // '' }

sub ends_with {
    my ($pid, $status, $name) = @_;
    waitpid $pid, 0;
    is $?, $status, $name;
}

# A conversation from the start to the end.
my ($pid, $to, $from) = start(<<'PROGRAM');
binmode $_, ':encoding(UTF-8)' for *STDOUT, *STDERR;
function resize => timeout => '1.5s', max_attempts => 7, sub {
    print 'printed';
    print STDERR 'warned';
    return { width => $_[0]{width} };
};
function setting => sub { $_[1]->setting($_[0]) };
function attempt => sub { return { n => $_[1]->attempt } };
function big => sub { 'x' x 8191 . "\x{f6}" };
function held => sub { my $held = `readlink /proc/self/fd/3 /proc/self/fd/4`; $held };
function replaced => sub { $_[1]->last };
function label => sub { $_[1]->label };
function wide => sub { $_[1]->progress(1e30, undef, "\"\n\x{f6}" x 100) };
function long => sub { $_[1]->defer('f' x 20_000) };
END { print "ended\n" }
PROGRAM
is message($from)->{name}, $_, "function $_ is announced" for qw(attempt big held label long replaced);
my $head = message($from);
is_deeply [ @$head{qw(type name timeout_ms max_attempts)} ], [ 'function', 'resize', 1500, 7 ], 'with its limits';
message($from) for qw(setting wide);
is_deeply message($from), { type => 'ready', protocol => 1, version => '7', bytes => 0, body => '' },
    'ready comes last';
print $to qq({"type":"setting","name":"api","value":"a\\"b\xc3\xb6\\u00f6"}\n);
call($to, 17, 'resize', '{"width": 640}');
is_deeply message($from), { type => 'done', job => '17', outcome => 'ok', bytes => 13, body => '{"width":640}' },
    'done has the result';
is join('', sort split /(?=[pw])/, output()), 'printedwarned', 'and output was flushed before';
call($to, '9223372036854775807', 'setting', '"api"');
is_deeply [ @{ message($from) }{qw(job body)} ], [ '9223372036854775807', "a\"b\xc3\xb6\xc3\xb6" ],
    'a setting has its characters, and a large id its digits';
call($to, 1, 'label', '{}', label => "a \"b\" \\ c: \"d\":5");
is message($from)->{body}, 'a "b" \\ c: "d":5', 'a label cannot add members';
call($to, 1, 'attempt', '{}', attempt => 3);
is message($from)->{body}, '{"n":3}', 'the number of the attempt is a number in JSON';
call($to, 1, 'big', '{}');
is message($from)->{type}, 'log', 'a result that is cut is logged';
is length message($from)->{body}, 8191, 'and cut between characters';
call($to, 1, 'held', '{}');
is message($from)->{body}, '', 'a child holds neither descriptor 3 nor 4';
call($to, 1, 'replaced', '{}');
is message($from)->{last}, 1, 'a program asks to be replaced';
call($to, 1, 'wide', '{}');
$head = message($from);
is length $head->{text} < 200, 1, 'a text of progress is cut';
is_deeply [ @$head{qw(done total)} ], [ 9223372036854775807, -1 ], 'numbers are whole numbers of 64 bits';
message($from);
call($to, 1, 'long', '{}');
like message($from)->{body}, qr/too long/, 'a head that is too long fails the job';
print $to qq({"type":"news","bytes":5}\n12345);
call($to, 2, 'absent', '{}');
is message($from)->{outcome}, 'unready', 'an unknown message is skipped, and an unknown function unready';
close $to;
ends_with($pid, 0, 'the end of the file ends the program with 0');
like output(), qr/ended\n\z/, 'after its END blocks';

# Stop.
($pid, $to, $from) = start(<<'PROGRAM');
use Time::HiRes 'sleep';
function asked => sub { my $job = $_[1]; $job->progress(0, 0); sleep 0.01 until $job->stop_asked; 'asked' };
function waits => sub { $_[1]->progress(0, 0); sleep 60 };
function floods => sub { while (1) { $_[1]->log('x' x 8000) } };
function returns => sub { 'ok' };
function forks => sub {
    my $pid = fork;
    if ($pid == 0) { $_[0] ? die "child died\n" : return }
    waitpid $pid, 0;
    "parent $?";
};
function child_sends => sub {
    my $pid = fork;
    if ($pid == 0) { eval { $_[1]->progress(1, 2) }; POSIX::_exit($@ =~ /child process/ ? 7 : 0) }
    waitpid $pid, 0;
    $? >> 8;
};
PROGRAM
message($from) for 1 .. 7;
print $to qq({"type":"stop","job":"1","why":"stopping"}\n);
kill TERM => $pid;
call($to, 1, 'asked', '{}');
message($from);
print $to qq({"type":"stop","job":"99","why":"stopping"}\n{"type":"stop","job":"1","why":"stopping"}\n);
is message($from)->{body}, 'asked', 'a function sees a stop of its job';
call($to, 2, 'waits', '{}');
message($from);
kill TERM => $pid;
$head = message($from);
is_deeply [ @$head{qw(outcome body)} ], [ 'failed', "stopped" ], 'SIGTERM in a job raises Stop';
kill TERM => $pid;
call($to, 3, 'returns', '{}');
is message($from)->{body}, 'ok', 'and SIGTERM between jobs does nothing';
call($to, 4, 'floods', '{}');
message($from);
kill TERM => $pid;
my ($logs, $done) = 0;
while ($done = message($from)) { last if $done->{type} ne 'log'; $logs += length $done->{body} != 8000 }
is_deeply [ $logs, $done->{outcome} ], [ 0, 'failed' ], 'Stop leaves no half message behind';
for my $dies (0, 1) {
    call($to, 5, 'forks', $dies);
    is message($from)->{body}, 'parent ' . ($dies ? 256 : 0), 'a forked child that leaves the function does not answer';
}
is output(), "child died\n", 'and its error is printed';
call($to, 6, 'child_sends', '{}');
is message($from)->{body}, 7, 'a forked child cannot send messages';
close $to;
ends_with($pid, 0, 'the program has stayed all the time');

# Large params, in pieces of any size.
($pid, $to, $from) = start('function size => sub { length($_[0]) . keys %{ $_[1]->parents } };');
message($from) for 1 .. 2;
my ($params, $parents) = ('"' . 'x' x 3_000_000 . '"', '{"a":{"id":1,"outcome":"ok","result":null}}');
call($to, 1, 'size', $params . $parents . 'more', params => length $params, parents => length $parents);
is message($from)->{body}, 30000001, 'params and parents of 3 MB are read';
my $text = qq({"type":"call","job":"2","fn":"size","attempt":1,"receipt":"1","params":5,"bytes":5}\n"abc") x 2;
for my $byte (split //, $text) { print $to $byte }
is message($from)->{body}, 30, 'so are messages that come byte by byte' for 1 .. 2;
close $to;
ends_with($pid, 0, 'and the program ends');

($pid, $to, $from) = start('function leaves => sub { print "last words"; exit 3 };');
message($from) for 1 .. 2;
call($to, 1, 'leaves', '{}');
is message($from), undef, 'a function that exits sends no answer';
ends_with($pid, 3 << 8, 'and ends the program with its status');
is output(), 'last words', 'after its output';

delete $ENV{DEFERRED_PROGRAM};
is system($^X, "-I$FindBin::Bin/../lib", "$folder/program.pl"), 0, 'without DEFERRED_PROGRAM run() returns';

done_testing;
