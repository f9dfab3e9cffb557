#!/bin/sh
# Sees to it that the Debian packages named as arguments are installed: as root by apt, else by telling
# which line to run. Says nothing, and costs milliseconds, when all are there. Everything goes to
# standard error. "postgresql" stands for a server of any version, "nodejs" and "npm" for those of any origin.
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
	nodejs | npm) command -v npm > /dev/null && continue ;;
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
# Of nginx the program is needed only: its package is not to serve anything. PostgreSQL's package makes its usual cluster:
# it would not do so later, when the administrator installs it, since it is installed then.
policy=/usr/sbin/policy-rc.d
case $missing in
*nginx*)
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\n[ "$1" != nginx ] || exit 101\n' > $policy
		chmod 755 $policy
		trap 'rm -f $policy; systemctl disable nginx > /dev/null 2>&1' EXIT
	fi
	;;
esac
export DEBIAN_FRONTEND=noninteractive
# $missing is a list of words.
apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold install --no-install-recommends $missing < /dev/null ||
	{ apt-get -q update && apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold install --no-install-recommends $missing < /dev/null; }
