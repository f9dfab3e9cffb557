# SPDX-License-Identifier: MIT
package Deferred::Job;
use 5.014;
use strict;
use warnings;
use Carp 'croak';
use Time::HiRes 'clock_gettime', 'CLOCK_MONOTONIC';

use constant TEXT_MAX => 8192;

my %LEVEL = (error => 1, warning => 2, info => 3, debug => 4);

sub id          { $_[0]{head}{job} }
sub fn          { $_[0]{head}{fn} }
sub attempt     { 0 + $_[0]{head}{attempt} }    # a number in JSON too
sub label       { $_[0]{head}{label} // '' }
sub receipt     { $_[0]{head}{receipt} }
sub traceparent { $_[0]{head}{traceparent} // '' }
sub parents     { $_[0]{parents} //= length $_[0]{parents_json} ? json()->decode($_[0]{parents_json}) : {} }
sub steps       { $_[0]{steps} //= length($_[0]{steps_json} // '') ? json()->decode($_[0]{steps_json}) : {} }

sub params {
    my ($self) = @_;
    $self->{params} = json()->decode(delete $self->{params_json}) if exists $self->{params_json};
    return $self->{params};
}

for my $time (qw(created tick previous_tick)) {
    no strict 'refs';
    *$time = sub { my $us = $_[0]{head}{"${time}_us"}; $us ? $us / 1e6 : undef };
}

sub left {
    my ($self) = @_;
    return undef unless defined $self->{deadline};
    my $left = $self->{deadline} - clock_gettime(CLOCK_MONOTONIC);
    return $left > 0 ? $left : 0;
}

sub setting    { $_[0]{settings}{ $_[1] } }
sub stop_asked { $_[0]{stop} ||= $_[0]{host}->stop_asked($_[0]) }
sub last       { $_[0]{last} = 1; return }

sub progress {
    my ($self, $done, $total, $text) = @_;
    $self->{host}->send([
        type => 'progress', job => $self->id, done => \whole($done), total => \whole($total),
        text => cut($text // '', 200),
    ]);
}

sub log {
    my ($self, $text, $level) = @_;
    $level //= 'info';
    my $number = $LEVEL{$level} // $level;
    croak "log: level '$level' is not error, warning, info or debug" unless $number =~ /^[1-4]\z/;
    $self->{host}->send([ type => 'log', job => $self->id, level => \$number ], cut($text, TEXT_MAX));
}

sub defer {
    my ($self, $fn, $params, $options) = @_;
    my $body = json()->encode($params // {});
    my $length = length $body;
    $body .= json()->encode($options) if $options;
    $self->{host}->send([ type => 'defer', job => $self->id, fn => $fn, params => \$length ], $body);
}

my %REFUSED = (
    invalid => 'a name follows the rule for function names, and a value has at most 64 KiB',
    full    => 'a job has at most 1,000 steps of together 1 MiB',
    refused => 'the log of the worker says why',
);

sub step {
    my ($self, $name, $code) = @_;
    my $steps = $self->steps;
    return exists $steps->{$name} ? $steps->{$name} : $self->save_step($name, scalar $code->());
}

sub save_step {
    my ($self, $name, $value) = @_;
    my $text = json()->encode($value);
    my $outcome = $self->{host}->save_step($self, $name, $text);
    $self->{gone} = $outcome eq 'gone';
    die bless { outcome => 'failed', error => "step '$name' was not saved, since another attempt may run" },
        $self->{batch} ? 'Deferred::Gone' : 'Deferred::Stop' if $self->{gone};
    die sprintf "step '%s' was not saved: %s\n", $name, $REFUSED{$outcome} // $outcome if $outcome ne 'saved';
    return $self->steps->{$name} = json()->decode($text);
}

sub finish {
    my ($self, $dbh, $result) = @_;
    my $text = result_text($result);
    utf8::decode($text) if defined $text;
    statement($dbh, 'select deferred.finish($1::bigint, $2::bigint, $3::text)', $self->id, $self->receipt, $text);
    return;
}

sub extend {
    my ($self, $dbh, $span) = @_;
    return statement($dbh, 'select deferred.extend($1::bigint, $2::bigint, $3::bigint)',
        $self->id, $self->receipt, span_ms($span));
}

# The other modules use the functions below.

my $json;

sub json {
    return $json //= do {
        local ($@, $SIG{__DIE__});
        my ($class) = grep { eval "require $_; 1" } qw(Cpanel::JSON::XS JSON::XS JSON::PP);
        $class->new->utf8->allow_nonref->convert_blessed->max_depth(1024);
    };
}

# A number of progress as a whole number of 64 bits. Without one, -1 says that it is not known.
sub whole {
    my ($number) = @_;
    return -1 unless defined $number && $number >= 0;
    return $number < 2**63 ? sprintf '%d', $number : '9223372036854775807';
}

# Text as UTF-8. A string whose bytes already are UTF-8, as read from a file or a program, stays as it is.
sub utf8_text {
    my ($text) = @_;
    utf8::encode($text) if utf8::is_utf8($text) or $text =~ /[\x80-\xff]/ && !utf8::decode(my $copy = $text);
    return $text;
}

# The first bytes of a text, without half a character at the end.
sub cut {
    my ($text, $max) = (utf8_text($_[0]), $_[1]);
    return $text if length $text <= $max;
    my $next = substr $text, $max, 1;
    $text = substr $text, 0, $max;
    $text =~ s/[\xc0-\xff][\x80-\xbf]*\z// if $next =~ /[\x80-\xbf]/;
    return $text;
}

sub result_text {
    my ($result) = @_;
    return undef unless defined $result;
    return ref $result ? json()->encode($result) : utf8_text($result);
}

# One statement with an answer of one value. A handle without RaiseError does not hide a failure.
sub statement {
    my ($dbh, $sql, @values) = @_;
    my $bytes = !$dbh->{pg_enable_utf8};    # then DBD::Pg wants UTF-8 instead of characters
    $bytes ? utf8::encode($_) : utf8::upgrade($_) for grep { defined } @values;
    my $statement = $dbh->prepare($sql);
    $statement and $statement->execute(@values) or die $dbh->errstr . "\n";
    my ($value) = $statement->fetchrow_array;
    $statement->finish;
    return $value;
}

my %UNIT_MS = (ms => 1, s => 1e3, m => 6e4, h => 36e5, d => 864e5, w => 6048e5);

# A number without a unit is in seconds.
sub span_ms {
    my ($span) = @_;
    my ($rest, $ms) = ($span // '', 0);
    $rest .= 's' if $rest =~ /^\d+(\.\d+)?\z/;
    while ($rest =~ s/^ ?(\d+(?:\.\d+)?) ?(ms|s|sec|m|min|h|d|w)(?![a-z])//) {
        $ms += $1 * $UNIT_MS{ $2 eq 'ms' ? 'ms' : substr $2, 0, 1 };
        return int($ms + 0.5) if $rest eq '';
    }
    croak sprintf "span '%s' is not a number with a unit: write 200ms, 5s, 10min, 2h or 30d", $span // 'undef';
}

1;

__END__

=encoding utf8

=head1 NAME

Deferred::Job - the job that a function was called for

=head1 SYNOPSIS

    use v5.36;
    use Deferred::Program;

    function import => sub ($params, $job) {
        my @rows = read_rows($params->{file});
        for my $n (0 .. $#rows) {
            last if $job->stop_asked;
            $job->progress($n, scalar @rows);
            store($rows[$n]);
        }
        return;
    };

=head1 MEMBERS

=over

=item id

The number of the job. It is the same in all attempts, so it can be the idempotency key for other
systems.

=item fn

The name of the function.

=item attempt

The number of the attempt, from 1.

=item label

The label of the job, or an empty string.

=item receipt

Proves to the database that this attempt holds the job.

=item created

When the job was deferred, in seconds since 1970.

=item traceparent

The W3C trace context in which the job was deferred, or an empty string.

=item tick, previous_tick

When the schedule of the job was due, and the tick of the schedule's previous job, in seconds since
1970. undef without a schedule.

=item parents

The jobs that this job waited for, by name, or by number without a name:
C<< { pack => { id => 17, outcome => 'ok', result => 'three boxes' } } >>.

=item params

The params of the job, for a function that takes a list of jobs.

=item steps

The values that this and earlier attempts have saved: a hash by name.

=back

=head1 METHODS

=head2 left

The seconds until the time limit of the attempt. undef without a limit.

=head2 stop_asked

True if the function should end soon, because the worker stops or the job was cancelled.

=head2 setting NAME

The text of a setting in the section C<settings> of this program, or undef.

=head2 progress DONE, TOTAL, TEXT

Reports how far the job is. Any unit will do. undef means unknown. At most 200 bytes of the text are
kept.

=head2 log TEXT, LEVEL

Writes a line to the log of the worker. At most 8 KiB are kept. Levels are C<error>, C<warning>,
C<info> and C<debug>, or 1 to 4. Default: C<info>.

=head2 defer FN, PARAMS, OPTIONS

Defers a job in the statement that records the success of this attempt. Without success nothing is
deferred. Options are those of C<deferred.defer()> in deferred_sql(3).

=head2 step NAME, CODE

Calls CODE once in the life of the job, saves its value as JSON, and returns the saved value. A later
attempt returns the saved value without a call.

=head2 save_step NAME, VALUE

Saves a value under a name, in place of an earlier one. Returns when the database has it.

If another attempt may run, C<save_step> raises C<Deferred::Stop>. In a function that takes a list of
jobs it raises C<Deferred::Gone>, which ends only this job: see L<Deferred::Program/function>.

=head2 finish DBH, RESULT

Records the success of this attempt in the caller's transaction on a connection of DBD::Pg. The work
of the function and its success are then committed together. Call C<finish> last, and commit. The
return value of the function is then ignored. Defer further jobs on the same connection.

=head2 extend DBH, SPAN

Makes the lease of the job last at least this span from now. Returns its end as text.

=head2 last

Asks the worker to replace this process after the job.

=head1 SEE ALSO

L<Deferred::Program>, deferred_program(7)

=cut
