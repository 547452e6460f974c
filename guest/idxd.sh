#!/bin/sh
# Makes a channel for the kernel of every work queue of every DSA that is not in use, as the
# administrator of a machine does (accel-config): idxd gives none by itself. DSA_MAX_TRANSFER is the
# maximum of a copy, if not 2 MB.
rc=0
for dsa in /sys/bus/dsa/devices/dsa*; do
	number=${dsa##*dsa}
	[ "$(cat "$dsa/state")" = disabled ] || continue
	for engine in "$dsa"/engine*; do
		echo 0 >"$engine/group_id" || rc=1
	done
	queues=$(cd "$dsa" && echo wq*)
	for queue in $queues; do
		while read -r file value; do
			echo "$value" >"$dsa/$queue/$file" || rc=1
		done <<-END
			group_id 0
			mode dedicated
			size 16
			type kernel
			name $queue
			driver_name dmaengine
			max_transfer_size ${DSA_MAX_TRANSFER:-2097152}
		END
	done
	echo "dsa$number" >/sys/bus/dsa/drivers/idxd/bind || rc=1
	for queue in $queues; do
		echo "$queue" >/sys/bus/dsa/drivers/dmaengine/bind || rc=1
	done
done
exit $rc
