firmware=/usr/share/ovmf/OVMF.fd
answers=("1 --quiet --size=4 --iterations=4" "migrate-offload status" "redis-server -v" 4)
said=("^Use dcbm on ptdma, for folios of" "If you answer for it: --engine idxd"
	"^Engine ptdma, 16 channels" "^Redis server v=")
passed=0 failed=0

# check <name> <command...>
check()
{
	if "${@:2}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok $1: see $out"
	fi
}

# boot <way> <what only this way prints> <options...>: the last answer ends the machine.
boot()
{
	local log=$1.log asked=0 answer words status=0

	echo "booting by $1"
	timeout 3600 "${@:3}" <input >"$log" 2>&1 &
	exec 3>input
	for answer in "${answers[@]}"; do
		asked=$((asked + 1))
		while kill -0 $! 2>&- && [ "$(grep -ac "4 reboot: " "$log")" -lt $asked ]; do
			sleep 0.2
		done
		echo "$answer" >&3 2>&- || true
	done
	wait $! || status=$?
	exec 3>&-
	check "$1 ends with status $status" [ $status -eq 0 ]
	check "$1 complains" eval "! grep -aE 'Call Trace|Kernel panic' $log"
	for words in "$2" "${said[@]}"; do
		check "$1 does not say '$words'" grep -aq "$words" "$log"
	done
}

