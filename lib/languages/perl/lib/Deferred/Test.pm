# SPDX-License-Identifier: MIT
package Deferred::Test;
use 5.014;
use strict;
use warnings;
use Carp 'croak';
use Deferred::Job;
use Deferred::Program ();
use Exporter 'import';
use Time::HiRes 'clock_gettime', 'CLOCK_MONOTONIC';

our @EXPORT = qw(call_function call_many);

sub call_function {
    my ($fn, $params, %options) = @_;
    my ($done) = call_many($fn, [ $params // {} ], %options);
    return $done;
}

sub call_many {
    my ($fn, $params, %options) = @_;
    my $id = $options{id} // 1;
    my @jobs = map { job_of($fn, $_, %options, id => $id++) } @$params;
    my @ends = Deferred::Program::attempts(@jobs);
    return map { done_of($_, @{ shift @ends }) } @jobs;
}

sub job_of {
    my ($fn, $params, %options) = @_;
    my $json = Deferred::Job::json();
    my $done = bless { steps => {}, deferred => [], progress => [], logs => [], stop => $options{stop} },
        'Deferred::Test::Done';
    my $job = bless {
        head => { job => $options{id}, fn => $fn, attempt => $options{attempt} // 1,
            label => $options{label}, receipt => $options{receipt} // '1', traceparent => $options{traceparent},
            map { ("${_}_us" => ($options{$_} // 0) * 1e6) } qw(tick previous_tick) },
        host => $done, settings => $options{settings} // {}, params_json => $json->encode($params),
        parents_json => $options{parents} ? $json->encode($options{parents}) : '',
        steps_json => $options{steps} ? $json->encode($options{steps}) : '',
        deadline => $options{timeout}
            && clock_gettime(CLOCK_MONOTONIC) + Deferred::Job::span_ms($options{timeout}) / 1000,
    }, 'Deferred::Job';
    $job->{head}{created_us} = int(1e6 * ($options{created} // time));
    return $job;
}

sub done_of {
    my ($job, $outcome, $answer, $after_ms) = @_;
    my $done = $job->{host};
    utf8::decode($answer) if defined $answer;
    @$done{qw(outcome last)} = ($outcome, $job->{last} ? 1 : 0);
    $done->{after} = $after_ms / 1000 if defined $after_ms;
    $done->{ $outcome eq 'ok' ? 'result' : 'error' } = $answer;
    return $done;
}

package    # what an attempt has led to, and the host of its job
    Deferred::Test::Done;

for my $member (qw(outcome result error after deferred progress logs steps last)) {
    no strict 'refs';
    *$member = sub { $_[0]{$member} };
}

sub data {
    my ($self) = @_;
    return undef unless defined $self->{result};
    my $text = $self->{result};
    utf8::encode($text);
    return Deferred::Job::json()->decode($text);
}

sub stop_asked { $_[0]{stop} ? 1 : 0 }

sub save_step {
    my ($self, $job, $name, $value) = @_;
    $self->{steps}{$name} = Deferred::Job::json()->decode($value);
    return 'saved';
}

sub send {
    my ($self, $head, $body) = @_;
    my %head = map { ref $_ ? $$_ : $_ } @$head;
    if ($head{type} eq 'defer') {
        my $json   = Deferred::Job::json();
        my $params = substr $body, 0, $head{params}, '';
        push @{ $self->{deferred} },
            bless { fn => $head{fn}, params => $json->decode($params),
                options => length $body ? $json->decode($body) : {} }, 'Deferred::Test::Deferred';
    }
    push @{ $self->{progress} }, { map { ($_ => $head{$_}) } qw(done total text) } if $head{type} eq 'progress';
    push @{ $self->{logs} }, { level => $head{level}, text => $body } if $head{type} eq 'log';
    return;
}

package    # a job that the attempt has deferred
    Deferred::Test::Deferred;

sub fn      { $_[0]{fn} }
sub params  { $_[0]{params} }
sub options { $_[0]{options} }

1;

__END__

=encoding utf8

=head1 NAME

Deferred::Test - call functions of a program in tests

=head1 SYNOPSIS

    use Test::More;
    use Deferred::Test;
    require './tasks.pl';

    my $done = call_function(resize => { owner => 'ann@example.org' }, attempt => 2);
    is $done->outcome, 'ok';
    is_deeply $done->data, { width => 640 };
    is $done->deferred->[0]->fn, 'send_mail';

=head1 FUNCTIONS

=head2 call_function NAME, PARAMS, OPTIONS

Runs one attempt in this process, with hooks. Params and result pass through JSON. No limit applies,
and no database is needed. The options are the members of the job: C<id>, C<attempt>, C<label>,
C<receipt>, C<created>, C<traceparent>, C<tick>, C<previous_tick>, C<parents>, C<steps>. In
addition:

=over

=item timeout

The span from which C<< $job->left >> counts down.

=item settings

A hash of the settings of the program.

=item stop

If true, C<< $job->stop_asked >> is true.

=back

=head2 call_many NAME, LIST OF PARAMS, OPTIONS

Calls a function that takes a list of jobs, with the params of each, and returns a list of results.
The ids of the jobs follow each other. The options are those of C<call_function>.

=head1 METHODS OF THE RESULT

=over

=item outcome

C<ok>, C<failed>, C<later>, C<snooze>, C<dead>, C<cancel> or C<unready>.

=item result, data

The result as text, and the value of a result that is JSON.

=item error

The text of the error.

=item after

The delay of C<later> and C<snooze> in seconds.

=item deferred

A list of the jobs that C<< $job->defer >> deferred. Each has C<fn>, C<params> and C<options>.

=item progress, logs

Lists of hashes with C<done>, C<total> and C<text>, and with C<level> and C<text>.

=item steps

A hash of the steps that the function saved.

=item last

1 if the function asked for a new process.

=back

=head1 SEE ALSO

L<Deferred::Program>, L<Deferred::Job>

=cut
