import sys; sys.path.insert(0,'/work/s/V2/tree')
from pathlib import Path
from harness.core.paths import Paths
from harness.checks import debian as d
from harness.kernel import debian, qemu
from harness.guest.image import program
p=Paths(Path('/work/s/V2/tree'), Path('/work/s/V2/cache'), Path('/work/s/V2/out'))
root=debian.userland(p,"amd64",("kexec-tools",), d.SUITE)
print(program(root,"kexec"), flush=True)
print(d.root_file_system(p), flush=True)
