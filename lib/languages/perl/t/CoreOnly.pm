# SPDX-License-Identifier: MIT
package CoreOnly;

# Hides the XS modules for JSON, so that the tests run with JSON::PP too: perl -MCoreOnly.
unshift @INC, sub { die "$_[1] is hidden\n" if $_[1] =~ m{^(Cpanel/)?JSON/XS\.pm$} };

1;
