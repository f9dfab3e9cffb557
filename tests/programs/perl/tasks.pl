#!/usr/bin/perl
# The functions that tests/programs/README.md lists.
use v5.14;
use strict;
use warnings;
use Deferred::Program;
use Time::HiRes 'sleep', 'time';

binmode $_, ':encoding(UTF-8)' for *STDOUT, *STDERR;
say "noise on standard output" if $ENV{NOISE};
my %hooks = (before => 0, after => 0);
my $bye;
END {
    if (defined $bye) {
        open my $file, '>', $bye or die "$bye: $!";
        print $file 'bye';
        close $file;
    }
}

before_job { $hooks{before}++ };
after_job { $hooks{after}++ };

my @limits = (timeout => '10s', max_attempts => 5);

sub seconds { defined $_[0] ? int $_[0] : undef }

# Sleeps until the time is over or Stop is raised.
sub nap { my $end = time + $_[0] / 1000; while ((my $left = $end - time) > 0) { sleep $left } return 'slept' }

function echo    => @limits, sub { $_[0] };
function fail    => @limits, sub { die "$_[0]{error}\n" };
function later   => timeout => '1500ms', max_attempts => 7, sub { later($_[0]{span}) };
function snooze  => @limits, sub { snooze($_[0]{span}) };
function dead    => @limits, sub { dead($_[0]{error}) };
function cancel  => @limits, sub { cancel($_[0]{error}) };
function unready => @limits, sub { unready($_[0]{error}) };
function nothing => @limits, sub { undef };
function text    => @limits, sub { $_[0]{text} };
function bytes   => @limits, sub { "a\xffb" };
function big     => @limits, sub { 'x' x $_[0]{bytes} };
function strange => @limits, sub { { code => sub { } } };
function length  => @limits, sub { { characters => length $_[0]{text} } };
function members => @limits, sub {
    my ($params, $job) = @_;
    return { (map { ($_ => '' . $job->$_) } qw(id fn attempt label receipt traceparent)),
        map { ($_ => seconds($job->$_)) } qw(created tick previous_tick) };
};
function left => @limits, sub {
    my $left = $_[1]->left;
    return { ms => defined $left ? int 1000 * $left : undef };
};
function parents  => @limits, sub { $_[1]->parents };
function progress => @limits, sub { my ($p, $job) = @_; $job->progress(@$p{qw(done total text)}); undef };
function log      => @limits, sub { my ($p, $job) = @_; $job->log(@$p{qw(text level)}); undef };
function defer    => @limits, sub { my ($p, $job) = @_; $job->defer(@$p{qw(fn params options)}); undef };
function step => @limits, sub {
    my ($p, $job) = @_;
    my $ran = 0;
    my $value = $job->step($p->{name} => sub { $ran++; $p->{value} });
    return { value => $value, ran => $ran, steps => $job->steps };
};
function save => @limits, sub { my ($p, $job) = @_; $job->save_step($p->{name}, $_) for @{ $p->{values} }; $job->steps };
function setting  => @limits, sub { my ($p, $job) = @_; return { value => $job->setting($p->{name}) } };
function print    => @limits, sub {
    print STDOUT $_[0]{text}  // '';
    print STDERR $_[0]{error} // '';
    undef;
};
function stop_asked => @limits, sub { sleep 0.01 until $_[1]->stop_asked; 'asked' };
function stopped    => @limits, sub { nap($_[0]{ms}) };
function sleep      => @limits, sub {
    my ($params, $job) = @_;
    my $end = eval { $job->progress(0, 1, 'begun'); nap($params->{ms}) };
    return $end // (ref $@ && $@->isa('Deferred::Stop') ? 'stopped' : die $@);
};
function last     => @limits, sub { $_[1]->last; 'last' };
function children => @limits, sub { my $held = `readlink /proc/self/fd/3 /proc/self/fd/4`; $held };
function left_behind => @limits, sub {
    my $pid = fork // die "fork: $!";
    exec 'sleep', '60' or die if $pid == 0;
    return "$pid";
};
function hooks   => @limits, sub { \%hooks };
function at_exit => @limits, sub { $bye = $_[0]{path}; undef };

sub entry {
    my ($job) = @_;
    my $params = $job->params;
    my $do = $params->{do};
    $job->progress(1, 2, $params->{text}) if $do eq 'progress';
    my $try = sub { [ $job->step(one => sub { $params->{value} }) ] };
    return $do eq 'step' ? $try->() : $try if $do eq 'step' || $do eq 'try';
    while ($do eq 'stop_asked' && !$job->stop_asked) { sleep 0.01 }
    return {
        text => $params->{text}, params => $params, stop_asked => 'asked', strange => { code => sub { } },
        dead => sub { dead($params->{error}) }, snooze => sub { snooze($params->{span}) },
        fail => sub { die "$params->{error}\n" },
    }->{$do};
}
function many => @limits, batch => 3, batch_wait => '200ms', sub {
    my ($jobs) = @_;
    my %words = map { ($_->params->{do} => $_->params) } @$jobs;
    die "$words{raise}{error}\n" if $words{raise};
    return undef if $words{null};
    return [ (map { entry($_) } @$jobs), $words{long} ? 'too many' : () ];
};

Deferred::Program->run(version => '1.2-test');
1;
