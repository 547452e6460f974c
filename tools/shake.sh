#!/bin/bash
# shake.sh PATTERN: stop and continue QEMU processes whose command line has PATTERN
while sleep 0.$((RANDOM % 9 + 1)); do
  for p in $(pgrep -f "qemu-system.*$1"); do kill -STOP $p; sleep 0.0$((RANDOM % 9 + 1)); kill -CONT $p; done
done
