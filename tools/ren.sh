#!/bin/bash
# ren.sh NICE PID: renice each thread of a process and of its descendants
n=$1
walk(){ for t in /proc/$1/task/*; do renice -n $n -p ${t##*/} >/dev/null 2>&1; done; for c in $(pgrep -P $1); do walk $c; done; }
walk $2
