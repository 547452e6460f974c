# shellcheck shell=sh
# shellcheck disable=SC2086,SC2034,SC2154 # $debian is a list of words; suites share names
# Debian's redis under its own redis-benchmark; read after /lib.sh. Suites define $keys and $bytes.

# Debian's programs, with their own libraries.
debian="/debian/lib64/ld-linux-x86-64.so.2 --library-path /debian/lib /debian/usr/bin"
socket=/run/redis.sock
# The server's.
group=/sys/fs/cgroup/program
mkdir $group

# serve <no|yes>: writes nothing to disk. It wants no large pages, unless told otherwise.
serve()
{
	sh -c "echo 0 >$group/cgroup.procs && exec $debian/redis-server --port 0 \
		--unixsocket $socket --save '' --appendonly no --disable-thp $1" >/run/redis.log &
	server=$!
	for _ in $(seq 100); do
		[ ! -S $socket ] || return 0
		sleep 0.1
	done
	return 1
}

# request <words>: the requests that redis-benchmark sends, besides sizes.
request()
{
	$debian/redis-benchmark -s $socket -r $keys -d $bytes --seed 1 --precision 3 "$@" >/run/requests
}

figures()
{
	tr '\r' '\n' </run/requests | sed -n '/by percentile/,/^$/p; /^Summary/,$p'
}
