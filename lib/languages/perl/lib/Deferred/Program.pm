# SPDX-License-Identifier: MIT
package Deferred::Program;
use 5.014;
use strict;
use warnings;
use Carp 'croak';
use Deferred::Job;
use Exporter 'import';
use Fcntl 'F_SETFD', 'FD_CLOEXEC';
use IO::Handle ();
use POSIX ();
use Scalar::Util 'blessed';
use Time::HiRes 'clock_gettime', 'CLOCK_MONOTONIC';

our $VERSION   = 'v0.2.0';
our @EXPORT    = qw(function before_job after_job later snooze dead cancel unready);
our @EXPORT_OK = (@EXPORT, 'defer');

use constant { HEAD_MAX => 16384, BODY_MAX => 16 << 20 };

my (%functions, @before, @after);
my $running = 0;    # inside a job, where SIGTERM raises Stop

sub function {
    my $code = pop;
    my $name = shift;
    croak "function '$name': the last argument is not a sub" unless ref $code eq 'CODE';
    croak "function '$name': a limit lacks its value" if @_ % 2;
    my %limits = @_;
    my $known = { code => $code };
    croak "function '$name' is defined twice" if $functions{$name};
    $known->{timeout_ms} = Deferred::Job::span_ms(delete $limits{timeout}) if defined $limits{timeout};
    $known->{batch_wait_ms} = Deferred::Job::span_ms(delete $limits{batch_wait}) if defined $limits{batch_wait};
    $known->{$_} = int delete $limits{$_} for grep { defined $limits{$_} } qw(max_attempts batch);
    $known->{progress_resets} = 1 if delete $limits{progress_resets};
    croak "function '$name': unknown limit '$_'" for grep { defined $limits{$_} } sort keys %limits;
    $functions{$name} = $known;
    return;
}

sub before_job (&) { push @before, @_; return }
sub after_job (&)  { unshift @after, @_; return }

sub later   { verdict(Later   => $_[1] // 'to be tried later', $_[0]) }
sub snooze  { verdict(Snooze  => $_[1] // 'not yet',           $_[0]) }
sub dead    { verdict(Dead    => $_[0] // 'failed for good') }
sub cancel  { verdict(Cancel  => $_[0] // 'not needed any more') }
sub unready { verdict(Unready => $_[0] // 'not ready') }

sub verdict {
    my ($name, $error, $span) = @_;
    my $after_ms = defined $span ? Deferred::Job::span_ms($span) : undef;
    die bless { outcome => lc $name, error => $error, after_ms => $after_ms }, "Deferred::$name";
}

sub defer {
    my ($dbh, $fn, $params, $options) = @_;
    my @json = map { defined $_ ? Deferred::Job::json()->encode($_) : undef } $params // {}, $options;
    utf8::decode($_) for grep { defined } @json;
    return Deferred::Job::statement($dbh, 'select deferred.defer($1::text, $2::json, $3::json)', $fn, @json);
}

# Runs one attempt, or those of a batch. Returns for each its outcome, its result or error, and the delay.
sub attempts {
    my @jobs = @_;
    my $fn = $jobs[0]->fn;
    my $function = $functions{$fn} or return map { ['unready', "the program has no function '$fn'"] } @jobs;
    $_->{batch} = $function->{batch} for @jobs;
    my $ends;
    # SIGTERM may end either block at any statement, and does so once.
    eval {
        eval {
            local $SIG{__DIE__} = $SIG{__DIE__} || \&remember_stack;
            $running = 1;
            for my $job (@jobs) { $_->($job) for @before }
            $ends = $function->{batch}
                ? batch_ends($fn, scalar $function->{code}->([@jobs]), scalar @jobs)
                : [ ['ok', Deferred::Job::result_text(scalar $function->{code}->($jobs[0]->params, $jobs[0]))] ];
            1;
        } or $ends = ends_by($@, @jobs);
        for my $job (@jobs) {
            eval { $_->($job) for @after; 1 } or $job->log("after_job: $@", 'error');
        }
        $running = 0;
        1;
    } or $ends = ends_by($@, @jobs);
    $running = 0;
    return @$ends;
}

# The ends of jobs whose function died. If one of a batch is gone, the attempts of the others do not count.
sub ends_by {
    my ($error, @jobs) = @_;
    my $end   = describe($error);
    my $other = [ 'snooze', 'another job of the batch is gone', 0 ];
    my $gone  = blessed $error && $error->isa('Deferred::Gone');
    return [ map { $gone && !$_->{gone} ? $other : $end } @jobs ];
}

# The ends of the jobs of a batch, by what their function has returned.
sub batch_ends {
    my ($fn, $given, $jobs) = @_;
    return [ map { ['ok'] } 1 .. $jobs ] unless defined $given;
    die "function '$fn' did not return a list\n" unless ref $given eq 'ARRAY';
    die sprintf "function '%s' returned %d outcomes for %d jobs\n", $fn, scalar @$given, $jobs
        unless @$given == $jobs;
    return [ map { entry_end($_) } @$given ];
}

sub entry_end {
    my ($entry) = @_;
    my $text;
    return ['ok', $text]
        if eval { $text = Deferred::Job::result_text(ref $entry eq 'CODE' ? scalar $entry->() : $entry); 1 };
    die $@ if blessed $@ && $@->isa('Deferred::Stop');
    return describe($@);
}

my @stack;

sub remember_stack {
    my $depth = 0;
    return if ref $_[0];
    @stack = ($_[0]);
    while (my ($package, $file, $line, $sub) = caller ++$depth) {
        last if $sub eq 'Deferred::Program::attempts';
        push @stack, "\t$sub called at $file line $line\n" unless $sub eq '(eval)' or $package eq __PACKAGE__;
    }
}

# Outcome, text and delay of what a function died with.
sub describe {
    my ($error) = @_;
    my @frames = splice @stack;
    return [ @$error{qw(outcome error after_ms)} ] if blessed $error && $error->isa('Deferred::Verdict');
    return [ 'failed', Deferred::Job::json()->encode($error) ] if ref $error eq 'HASH' || ref $error eq 'ARRAY';
    my $shown = shift @frames;
    return [ 'failed', join '', $error, defined $shown && $shown eq $error ? @frames : () ];
}

sub run {
    my ($class, %options) = @_;
    return unless $ENV{DEFERRED_PROGRAM};
    my $self = bless { buffer => '', settings => {}, pid => $$, jobs => [] }, $class;
    open $self->{in},  '<&=', 3 or die "descriptor 3: $!\n";
    open $self->{out}, '>&=', 4 or die "descriptor 4: $!\n";
    for my $pipe (@$self{qw(in out)}) {
        binmode $pipe;
        fcntl $pipe, F_SETFD, FD_CLOEXEC or die "close-on-exec: $!\n";
    }
    $SIG{TERM} = sub {
        return unless $running;
        return $self->{held} = 1 if $self->{sending};
        $running = $self->{held} = 0;
        die bless { outcome => 'failed', error => 'stopped' }, 'Deferred::Stop';
    };
    for my $name (sort keys %functions) {
        my %limits = %{ $functions{$name} };
        $self->send([ type => 'function', name => $name,
            map { defined $limits{$_} ? ($_ => \$limits{$_}) : () }
                qw(timeout_ms max_attempts batch batch_wait_ms progress_resets) ]);
    }
    $self->send([ type => 'ready', protocol => \1, version => $options{version} // '' ]);
    while (my ($head, $body) = $self->receive) {
        $self->{settings}{ $head->{name} } = $head->{value} if $head->{type} eq 'setting';
        $self->answer($head, $body) if $head->{type} eq 'call';
    }
    exit 0;
}

sub answer {
    my ($self, $head, $body) = @_;
    my $params = substr $body, 0, $head->{params}, '';
    push @{ $self->{jobs} }, bless {
        head => $head, host => $self, settings => $self->{settings}, params_json => $params,
        parents_json => substr($body, 0, $head->{parents} // 0, ''),
        steps_json => substr($body, 0, $head->{steps} // 0),
        deadline => $head->{timeout_ms} && clock_gettime(CLOCK_MONOTONIC) + $head->{timeout_ms} / 1000,
    }, 'Deferred::Job';
    return if ($head->{more} // 0) > 0;
    my @jobs = splice @{ $self->{jobs} };
    @$self{qw(stopped asked)} = ({}, undef);
    my @ends = attempts(@jobs);
    if ($$ != $self->{pid}) {    # a child that the function started has left the function
        my ($failed) = grep { $_->[0] ne 'ok' } @ends;
        print STDERR $failed->[1] if $failed;
        POSIX::_exit($failed ? 1 : 0);
    }
    $_->flush for *STDOUT{IO}, *STDERR{IO};
    $self->done($_, @{ shift @ends }) for @jobs;
}

sub done {
    my ($self, $job, $outcome, $text, $after_ms) = @_;
    $job->log(sprintf('the result has %d bytes and is cut to %d', length $text, Deferred::Job::TEXT_MAX), 'warning')
        if $outcome eq 'ok' && defined $text && length $text > Deferred::Job::TEXT_MAX;
    $self->send([ type => 'done', job => $job->id, outcome => $outcome,
        defined $after_ms ? (after_ms => \$after_ms) : (), $job->{last} ? (last => \1) : () ],
        Deferred::Job::cut($text // '', Deferred::Job::TEXT_MAX));
}

# The next message: its head and its body. Nothing at the end of the file.
sub receive {
    my ($self) = @_;
    my $end;
    until (($end = index $self->{buffer}, "\n") >= 0) {
        $self->fill(65536) or return;
    }
    my $line = substr $self->{buffer}, 0, $end + 1, '';
    my %head = $line =~ /"((?:[^"\\]++|\\.)*+)"\s*:\s*(?|"((?:[^"\\]++|\\.)*+)"|(-?\d+))/g;
    if ($line =~ /[\\\x80-\xff]/) {
        # Rare. The module knows all escapes.
        $head{$_} = Deferred::Job::json()->decode(qq("$head{$_}")) for keys %head;
    }
    my $bytes = $head{bytes} // 0;
    while ((my $missing = $bytes - length $self->{buffer}) > 0) {
        $self->fill($missing > 65536 ? $missing : 65536) or return;
    }
    return (\%head, substr $self->{buffer}, 0, $bytes, '');
}

sub fill {
    my ($self, $bytes) = @_;
    my $read;
    do { $read = sysread $self->{in}, $self->{buffer}, $bytes, length $self->{buffer} }
        until defined $read or $! != POSIX::EINTR;
    return $read // die "descriptor 3: $!\n";
}

# Takes a message about a job that the runner sends during it. False: none came in time.
sub listen {
    my ($self, $seconds) = @_;
    vec(my $set = '', fileno $self->{in}, 1) = 1;
    return 0 unless length $self->{buffer} or select($set, undef, undef, $seconds) > 0;
    $self->{sending} = 1;    # half a message must not be left behind
    my ($head) = $self->receive;
    if (!$head) {
        $self->{ended} = 1;
    } elsif ($head->{type} eq 'stop') {
        $self->{stopped}{ $head->{job} } = 1;
    } elsif ($head->{type} eq 'stepped' && defined $self->{asked} && $head->{job} eq $self->{asked}) {
        @$self{qw(asked answer)} = (undef, $head->{outcome});
    }
    $self->{sending} = 0;
    kill TERM => $$ if $self->{held};
    return 1;
}

sub stop_asked {
    my ($self, $job) = @_;
    1 while !$self->{stopped}{ $job->id } && !$self->{ended} && $self->listen(0);
    return $self->{stopped}{ $job->id } || $self->{ended} ? 1 : 0;
}

# Returns the outcome when the step is stored.
sub save_step {
    my ($self, $job, $name, $value) = @_;
    croak "the worker is older than 0.2.0 and saves no steps" unless defined $job->{head}{steps};
    $self->await_answer;    # to a step whose wait SIGTERM has ended
    $self->send([ type => 'step', job => $job->id, name => $name ], $value);
    $self->await_answer;
    return $self->{answer};
}

sub await_answer {
    my ($self) = @_;
    while (defined $self->{asked}) {
        $self->listen(undef);
        die "descriptor 3: end of file\n" if $self->{ended};
    }
    return;
}

my %ESCAPE = ("\n" => '\n', "\t" => '\t', "\r" => '\r', '"' => '\"', '\\' => '\\\\');

# Sends a message. Its head is a list of names and values: a reference is a number.
sub send {
    my ($self, $head, $body) = @_;
    die "a child process cannot send messages of its parent's job\n" if $$ != $self->{pid};
    my $data = '{';
    for (my $i = 0; $i < @$head; $i += 2) {
        my $value = $head->[ $i + 1 ];
        if (ref $value) {
            $value = $$value;
        } else {
            $value = Deferred::Job::utf8_text($value);
            $value =~ s/([\x00-\x1f"\\])/$ESCAPE{$1} \/\/ sprintf '\u%04x', ord $1/ge;
            $value = qq("$value");
        }
        $data .= qq("$head->[$i]":$value,);
    }
    my $bytes = length($body // '');
    $data .= qq("bytes":$bytes}\n);
    croak sprintf '%s: the message is too long', $head->[1] if length $data > HEAD_MAX || $bytes > BODY_MAX;
    $data .= $body if $bytes;
    my $sent = 0;
    $self->{sending} = 1;    # half a message must not be left behind
    $self->{asked} = $head->[3] if $head->[1] eq 'step';
    while ($sent < length $data) {
        my $written = syswrite $self->{out}, $data, length($data) - $sent, $sent;
        die "descriptor 4: $!\n" unless defined $written or $! == POSIX::EINTR;
        $sent += $written // 0;
    }
    $self->{sending} = 0;
    kill TERM => $$ if $self->{held};
    return;
}

package    # the exceptions
    Deferred::Verdict;
use overload '""' => sub { "$_[0]{error}\n" }, bool => sub { 1 }, fallback => 1;
@Deferred::Later::ISA = @Deferred::Snooze::ISA = @Deferred::Dead::ISA = @Deferred::Cancel::ISA =
    @Deferred::Unready::ISA = @Deferred::Stop::ISA = @Deferred::Gone::ISA = ('Deferred::Verdict');

1;

__END__

=encoding utf8

=head1 NAME

Deferred::Program - functions in Perl for deferred, the job runner for PostgreSQL

=head1 SYNOPSIS

    use v5.36;
    use Deferred::Program;

    function resize => timeout => '10s', max_attempts => 5, sub ($params, $job) {
        later('30s') if busy();
        $job->progress(0, 2, 'fetching');
        $job->defer(send_mail => { to => $params->{owner}, subject => 'Ready' });
        return { width => 640 };
    };

    Deferred::Program->run(version => '1.4');

The configuration of the worker names the file:

    program "shop" {
        command = {"/usr/bin/perl", "/srv/shop/tasks.pl"}
    }

=head1 DESCRIPTION

A program is a process that executes one job after another. The worker starts the program and
restarts it when it ends. deferred_program(7) describes the configuration and the protocol.

Descriptors 3 and 4 carry the protocol. The runner writes the standard output and
standard error of a program to the log of the job.

The JSON module is Cpanel::JSON::XS if it is installed, otherwise JSON::XS, otherwise JSON::PP,
which comes with Perl. With an XS module, a program executes twice as many small jobs, and reads
1 MB of params in milliseconds instead of a second.

=head1 FUNCTIONS

All functions except C<defer> are exported by default.

=head2 function NAME => LIMITS, CODE

Offers a function. A name has letters, digits, C<_> and C<.>, at most 127 of them, and does not
begin with a digit. The limits are C<timeout>, a span, and C<max_attempts>. Default: those of the
configuration. If C<progress_resets> is true, an attempt that saved a step of a new name does not
count against C<max_attempts>.

CODE is called in scalar context with the params, any value of JSON, and the job, see
L<Deferred::Job>. Its value is the result of the job:

=over

=item *

A string or a number is stored unchanged, as text in UTF-8.

=item *

A reference is stored as JSON. An object needs a method C<TO_JSON>.

=item *

undef is not stored.

=back

The worker keeps 8 KiB of a result. The library writes to the log if a result is cut. Store a larger
result in a table.

If CODE dies, the attempt has failed. The error has the text of the exception and the calls that led
to it.

With the limit C<batch>, CODE is called with a reference to a list of up to that many jobs. They wait
for each other up to C<batch_wait>, a span. Default: 0. The params of a job are C<< $job->params >>.
CODE returns undef, or a reference to a list with an entry for each job. An entry is a result as above.
If an entry is a reference to a sub, the library calls the sub. Its value is the result, and it may
die:

    function index_page => batch => 100, batch_wait => '500ms', sub ($jobs) {
        my $errors = insert_all(map { $_->params } @$jobs);
        return [ map { my $error = $_; $error ? sub { dead($error) } : undef } @$errors ];
    };

If CODE itself dies, the attempts of all jobs have ended so. There is one exception. A step that is
refused because another attempt of its job may run raises C<Deferred::Gone>. If CODE does not catch
it, the attempts of the other jobs do not count, and these jobs are tried again soon.

=head2 later SPAN, REASON

Ends the attempt as failed. The next one starts after the span. Default: the usual delay.

=head2 snooze SPAN, REASON

Ends the attempt without counting it. The next one starts after the span. Default: the usual delay.

=head2 dead REASON

Ends the job as failed for good.

=head2 cancel REASON

Cancels the job, because it is not needed any more.

=head2 unready REASON

Ends the attempt without counting it, because an operator has to act first.

=head2 before_job BLOCK

Calls the block with each job before its function. If the block dies, the attempt has failed.

=head2 after_job BLOCK

Calls the block with each job after its function, whatever the outcome. If the block dies, the
library writes the error to the log.

=head2 defer DBH, FN, PARAMS, OPTIONS

    use Deferred::Program 'defer';

    my $id = defer($dbh, resize => { owner => 'ann' }, { delay => '5min' });

Defers a job on a connection of DBD::Pg, in the transaction of the caller, and returns its id.
C<defer> does not open a connection, commit or retry. If the server refuses the job, it dies, also
without C<RaiseError>. Options are those of C<deferred.defer()> in deferred_sql(3).
Default for PARAMS: an empty object.

=head2 Deferred::Program->run(version => VERSION)

Announces the functions and serves the worker. At the end of its input it calls C<exit 0>, so END
blocks run. The version is that of the application and appears in the log of builds.

Without C<DEFERRED_PROGRAM> in the environment, C<run> returns at once. A test can therefore load
the file. End the file with C<1;> if the test uses C<require>.

=head1 SPANS

A span is a number with a unit, or several: C<200ms>, C<5s>, C<10min>, C<2h>, C<1h 30min>, C<30d>.
A number without a unit is in seconds.

=head1 STOPPING A JOB

If an attempt exceeds its time limit, or its job is cancelled, or the worker does not wait any
longer, the worker sends SIGTERM. The library then raises an exception of the class
C<Deferred::Stop> in the function. Let it pass:

    eval { fetch(); 1 } or do {
        die $@ if ref $@ && $@->isa('Deferred::Stop');
        warn "cannot fetch: $@";
    };

The signal interrupts C<sleep>, C<read> and other calls of the system. It does not interrupt a
statement within a library in C, such as a query of DBD::Pg. The worker kills a program that does
not end the job within C<kill_after>.

=head1 CHILD PROCESSES

A command that a function starts does not inherit descriptors 3 and 4. A child made by C<fork>
cannot send messages, and ends when it leaves the function.

=head1 TESTS

L<Deferred::Test> calls functions in the process of a test.

=head1 SEE ALSO

L<Deferred::Job>, L<Deferred::Test>, deferred_program(7), deferred_sql(3)

=head1 LICENSE

MIT

=cut
