# Functions of the shop in Perl.
use v5.36;
use DBI;
use Deferred::Program;

function daily_report => timeout => '1min', sub ($params, $job) {
    my $database = DBI->connect('dbi:Pg:' . $job->setting('conninfo'), '', '', { RaiseError => 1 });
    my ($invoices, $amount) = $database->selectrow_array(
        "select count(*), coalesce(sum(amount), 0) from invoices where created_at > now() - interval '1 day'");
    $job->defer(send_mail => {
        to => $job->setting('owner'), subject => 'Report', text => "$invoices invoices, $amount EUR" });
    return { invoices => 0 + $invoices, amount => 0 + $amount };
};
Deferred::Program->run;
1;
