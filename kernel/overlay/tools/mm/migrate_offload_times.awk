#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# Histograms of a trace of the group "migrate", as tracefs or trace-cmd report prints it:
# for how long a migrator took to copy batches of unmapped memory, and folios were
# inaccessible. A line has the least and the greatest number of microseconds, and how many
# there were. hugetlb folios, whose copy has no beginning in the trace, are only among the
# inaccessible ones. See Documentation/admin-guide/mm/migrate_offload.rst.

function add(what, us,		low)
{
	for (low = 1; 2 * low <= us; low *= 2)
		;
	count[what, low]++
	if (low > most)
		most = low
}

function show(what,		low)
{
	for (low = 1; low <= most; low *= 2)
		if ((what, low) in count)
			printf "%s %d %d %d\n", what, low == 1 ? 0 : low, 2 * low - 1,
				count[what, low]
}

# The name of a task may have blanks in it: "task-pid [cpu] flags time: event: fields"
match($0, / +\[[0-9]+\] .*[0-9]+\.[0-9]+: mm_migrate_/) {
	task = substr($0, 1, RSTART - 1)
	sub(/.*-/, "", task)
	split(substr($0, RSTART, RLENGTH), words)
	for (i = 1; words[i] !~ /^[0-9]+\.[0-9]+:$/; i++)
		;
	us = 1000000 * words[i]
	event = substr($0, RSTART + RLENGTH)
	sub(/:.*/, "", event)
	folio = ""
	if (match($0, /src_pfn=[0-9a-fx]+/))
		folio = substr($0, RSTART, RLENGTH)

	if (event == "batch_flush") {
		flushed[task] = us
	} else if (event == "batch_start" || event == "chunk_protected") {
		delete flushed[task]
	} else if (event == "batch_copied" && task in flushed) {
		if (!match($0, /nr_copied=0 /))
			add("copy", us - flushed[task])
		# The same memory may be copied in several batches.
		flushed[task] = us
	} else if (event == "folio_unmapped") {
		unmapped[folio] = us
	} else if (event == "folio_accessible") {
		delete flushed[task]
		if (folio in unmapped)
			add("inaccessible", us - unmapped[folio])
		delete unmapped[folio]
	}
}

END {
	show("copy")
	show("inaccessible")
}
