#!/bin/bash
# Prepare a Debian 12 or 13 host, then run the harness:
#
#	harness/bootstrap.sh <command> [arguments]
#
# Installs the Debian packages that are missing (and only those), makes a virtual
# environment for the pinned Python packages, and does nothing on a prepared host.
# "clean" removes out/, with ALL=1 the cache, and with SHARED=1 what no clone uses of the
# cache that all clones share.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=$(realpath -m "${CACHE_DIR:-$root/.cache}")
# All clones share things that never change, unless CACHE_DIR names a place for everything.
shared=$cache/shared
if [ -z "${CACHE_DIR:-}" ] && { [ -L "$shared" ] || [ ! -e "$shared" ]; }; then
	base=~/.cache
	shared=$(realpath -m "${XDG_CACHE_HOME:-$base}/migrate-offload")
fi
export CACHE_DIR=$cache
export MPLCONFIGDIR=$cache/matplotlib
export PATH=$PATH:/usr/sbin:/sbin

packages=(
	# to build the kernel and its tools
	gcc gcc-12 libc6-dev make flex bison bc libelf-dev libssl-dev kmod rsync patch
	xz-utils zstd cpio perl git ca-certificates debian-archive-keyring
	# to build its selftests
	libnuma-dev libcap-dev liburing-dev
	# the guest
	qemu-system-x86 busybox-static e2fsprogs e2fsck-static
	# the same for arm64
	gcc-12-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-arm device-tree-compiler
	mmdebstrap
	# to build the QEMU that guests run in
	ninja-build pkgconf libglib2.0-dev libpixman-1-dev libfdt-dev seabios
	# the harness and the linters
	python3 python3-venv sparse shellcheck dpkg-dev
)

case ${1:-} in
deb | check-debian)
	packages+=(debhelper help2man libdw-dev gpg gpg-agent) ;;&
check-debian)
	packages+=(genext2fs lintian) ;;
image-check)
	packages+=(genext2fs mtools ovmf) ;;
esac

die()
{
	echo "error: $*" >&2
	exit 1
}

# A signal to this script ends pip too. bash handles it after apt-get has ended by itself:
# half an installation would be worse.
child=
stop()
{
	[ -z "$child" ] || kill -- "-$child" || true
	wait
	echo "error: stopped by SIG$1" >&2
	exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
	# shellcheck disable=SC2064 # now is right
	trap "stop $signal" "$signal"
done

ours="# made by the harness of migrate copy offload"

is_ours()
{
	grep -qxsF "$ours" "$1/CACHEDIR.TAG"
}

# Marks a cache as ours, so that "clean" may remove it; refuses other people's directories.
own()
{
	local files

	! is_ours "$1" || return 0
	files=$(ls -A "$1" 2>/dev/null || true)
	[ -z "$files" ] || [ "$1" = "$root/.cache" ] ||
		die "$1 is not empty, and not a cache of this harness"
	mkdir -p "$1"
	printf 'Signature: 8a477f597d28d172789f06886806bc55\n%s\n' "$ours" >"$1/CACHEDIR.TAG"
}

# Removes what no process uses of the cache that all clones share; says what stays.
clean_shared()
{
	! is_ours "$1" || (cd "$root" && /usr/bin/python3 -m harness.core.store "$1")
}

clean()
{
	local used

	exec 8<"$root"
	flock --nonblock 8 || die "another harness is running in $root"
	rm -rf "$root/out"
	[ -z "${SHARED:-}" ] || clean_shared "$shared"
	[ -n "${ALL:-}" ] && [ -e "$cache" ] || return 0
	is_ours "$cache" || die "$cache was not made by this harness: no CACHEDIR.TAG of ours"
	exec 7>>"$cache/lock"
	flock --nonblock 7 || die "another harness is using $cache"
	if [ ! -L "$cache/shared" ]; then
		used=$(clean_shared "$cache/shared")
		[ -z "$used" ] || die "$used"
	fi
	rm -rf "$cache"
}

case $root$cache$shared in
*[[:space:]:]*)
	die "kbuild cannot build in a path with a space or a colon: $root, $cache, $shared" ;;
esac
if [ "${1:-}" = clean ]; then
	clean
	exit
fi
own "$cache"
if [ "$shared" != "$cache/shared" ]; then
	ln -sfnT "$shared" "$cache/shared"
elif [ -L "$shared" ]; then
	rm "$shared"
fi
own "$shared"

# Prints those of the packages that are not installed.
missing_packages()
{
	local installed package

	installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" \
		2>/dev/null | sed -n 's/^installed //p' || true)
	for package in "${packages[@]}"; do
		grep -qx "$package" <<<"$installed" || echo "$package"
	done
}

install_packages()
{
	local log=$cache/log/apt.log sudo=(sudo)

	[ "$(id -u)" != 0 ] || sudo=()
	command -v apt-get >/dev/null ||
		die "this host is not Debian (no apt-get): the harness needs Debian 12 or 13"
	[ -z "${sudo[*]}" ] || command -v sudo >/dev/null ||
		die "not root and no sudo; please install: $*"
	echo "host: installing $# missing Debian packages: $*"
	mkdir -p "$cache/log"
	"${sudo[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 ||
		die "apt-get update failed: $(tail -n 1 "$log")"
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 install "$@" >>"$log" 2>&1 ||
		die "apt-get install failed: $(grep '^E:' "$log" | head -n 1) (log: $log)"
	echo "host: installed in ${SECONDS}s"
}

# The interpreter that Debian's python3-venv belongs to, whatever else is on PATH.
python=/usr/bin/python3

# Keeps $venv from being removed until this process ends; fails if it is not complete.
hold()
{
	{ exec 6<"$venv"; } 2>/dev/null && flock --shared 6 && [ -e "$venv/complete" ]
}

# Makes $venv; only one harness at a time, and none uses it before it is complete.
make_venv()
{
	local log=$cache/log/venv.log

	mkdir -p "$cache/log"
	exec 9>"$shared/venv.lock"
	flock --nonblock 9 || {
		echo "host: waiting for another harness that makes the Python environment"
		flock 9
	}
	if [ -e "$venv/complete" ]; then
		exec 9>&-
		return
	fi
	echo "host: making a Python environment in $venv"
	rm -rf "$venv"
	mkdir "$venv"
	hold || true
	set -m # a process group of its own
	{
		"$python" -m venv "$venv" && exec "$venv/bin/python" -m pip install \
			--disable-pip-version-check --require-hashes --only-binary :all: \
			-r "$root/requirements.txt"
	} >"$log" 2>&1 9>&- &
	child=$!
	set +m
	wait "$child" ||
		die "no Python environment: $(grep -i error "$log" | tail -n 1) (log: $log)"
	child=
	touch "$venv/complete"
	exec 9>&-
}

mapfile -t missing < <(missing_packages)
[ "${#missing[@]}" = 0 ] || install_packages "${missing[@]}"

key=$( ("$python" --version && cat "$root/requirements.txt") | sha256sum | cut -c 1-12)
venv=$shared/venv-$key
until hold; do
	make_venv
done
touch "$venv" # its last use
ln -sfnT "$venv" "$cache/venv"

cd "$root"
export PATH=$venv/bin:$PATH
exec python -m harness "$@"
