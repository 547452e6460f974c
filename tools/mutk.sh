#!/bin/bash
cd /work/s
NICE=${2:-5} exec ./viewnext.sh $1 make mutants ONLY="$(cat /work/s/$3)"
