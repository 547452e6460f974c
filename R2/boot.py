"""boot.py NAME: boot virtual-time's suite once, with its clock, and judge it."""
import sys, time, resource
from pathlib import Path
from harness.core.paths import default_paths
from harness.checks import clock
from harness.guest import suite
paths = default_paths()
kernel = suite.prepare(paths, "base")
out = Path("/work/s/R2/log") / sys.argv[1]
done = suite.run_quietly(paths, kernel, clock.SUITE, out, {}, cpus=4, clock=clock.CLOCK)
print(done.results)
for case in clock.judge(clock.parse(done.results)):
    print(case.status.value, case.name, case.detail if case.status.value != "passed" else "")
print(resource.getrusage(resource.RUSAGE_CHILDREN))
