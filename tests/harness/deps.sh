#!/bin/sh
# Sees to it that the Debian packages named as arguments are installed: as root by apt, else by telling
# which line to run. Says nothing, and costs milliseconds, when all are there. Everything goes to
# standard error. "postgresql" stands for a server of any version.
exec >&2
command -v dpkg-query > /dev/null || exit 0 # no Debian: the compiler will tell what is missing

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2> /dev/null | sed -n 's/^installed //p')
missing=
for package; do
	case "
$installed
" in
	*"
$package
"*) continue ;;
	esac
	case $package in
	postgresql) ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 && continue ;;
	esac
	missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "These packages are missing; please run, as root:"
	echo "    apt-get install --no-install-recommends$missing"
	exit 1
fi
echo "installing:$missing"
# The server is needed for private clusters only: keep its package from making and starting one of its own.
conf=/etc/postgresql-common/createcluster.conf
case $missing in
*postgresql*)
	if [ ! -e $conf ]; then
		mkdir -p /etc/postgresql-common
		echo "create_main_cluster = false" > $conf
	fi
	;;
esac
# Of nginx the program is needed only: its package is not to serve anything.
policy=/usr/sbin/policy-rc.d
case $missing in
*nginx*)
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' > $policy
		chmod 755 $policy
		trap 'rm -f $policy; systemctl disable nginx > /dev/null 2>&1' EXIT
	fi
	;;
esac
export DEBIAN_FRONTEND=noninteractive
# $missing is a list of words.
apt-get -q -y -o Dpkg::Options::=--force-confold install --no-install-recommends $missing < /dev/null ||
	{ apt-get -q update && apt-get -q -y -o Dpkg::Options::=--force-confold install --no-install-recommends $missing < /dev/null; }
