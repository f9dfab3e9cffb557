# Tests of the report. They need the database of test_shop.py.
use v5.36;
use Test::More;
use Deferred::Test;
use FindBin;
require "$FindBin::Bin/shop_report.pl";

my $done = call_function(daily_report => {}, settings => { conninfo => '', owner => 'owner@example.org' });
is $done->outcome, 'ok' or diag $done->error;
like $done->deferred->[0]->params->{text}, qr/^\d+ invoices, \d+ EUR$/;
is $done->deferred->[0]->params->{to}, 'owner@example.org';
done_testing;
