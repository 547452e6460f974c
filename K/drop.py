"""Write the series of the edit tree back without the patches that argv names."""
import sys, os
from harness.core import paths as p
from harness.kernel import source
from harness.series import edit
paths = p.default_paths()
e = edit.Editor(paths, source.get(paths))
gone = [s for s in e._steps if s.name in sys.argv[1:]]
e._steps = tuple(s for s in e._steps if s.name not in sys.argv[1:])
old, new = e._read("saved"), e._read("series")
e._attribute(new)
edit.name_targets(new)
written = e._write(old, new)
names = {one.target for one in new}
for s in gone:
    if s.name not in names:
        (paths.patches / s.name).unlink()
        written.append(s.name + " dropped")
made = e._proven()
if not made:
    written += e._write([], new)
    made = e._proven()
assert made
e._adopt(made)
e._park(new[-1].target)
print("\n".join(dict.fromkeys(written)))
