#!/bin/bash
# killsid.sh SID: end a session that I started
for i in 1 2 3; do for p in $(ps -s $1 -o pid=,stat= | awk '$2!~/Z/{print $1}'); do kill -TERM $p 2>/dev/null; done; sleep 2; done
ps -s $1 -o pid,stat,args | grep -v defunct | cut -c1-80
