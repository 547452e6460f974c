#!/bin/bash
# usage: mapped_hist.sh TAG CONFIG KIB...: runs under ns; histogram of 4 KB etc.
tag=$1; config=$2; shift 2
cd /work/wt/mapped
P=$(echo /work/cache/venv-*/bin/python)
PYTHONPATH=/work/wt/mapped $P /work/tmp/mapped_measure.py $config /work/tmp/mapped-$tag
