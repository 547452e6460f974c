"""ed.py edit PATCH | save | pick TOPIC REF | prove: the Editor on a tree of only the touched files."""
import sys, shutil, os
from pathlib import Path
sys.path.insert(0, os.environ.get("CLONE", "/work/s/N/tree"))
from harness.core.paths import Paths
from harness.kernel import topics, stack, source
from harness.kernel.source import Source
from harness.series import edit, export
PR = Path("/work/s/lower/.cache/shared/linux-7.3.4-1-bpo13+1")
root = Path(os.environ.get("CLONE", "/work/s/N/tree")); home = Path(os.environ.get("EDHOME", "/work/s/N/ed"))
paths = Paths(root=root, cache=home, out=home / "out")
steps = topics.all_steps(topics.read(paths, whole=False))
home.mkdir(exist_ok=True)
names = set().union(*(s.files for s in steps))
pr = home / "pristine"
for n in names:
    if (PR / n).is_file() and not (pr / n).exists():
        (pr / n).parent.mkdir(parents=True, exist_ok=True); shutil.copy2(PR / n, pr / n)
if (PR/".gitattributes").exists(): shutil.copy(PR/".gitattributes", pr)
org = Source("7.3.4-1~bpo13+1", home, "r1", "linux-source-7.3 7.3.4-1~bpo13+1")
cmd = sys.argv[1]
if cmd == "edit":
    s = edit.Editor(paths, org).edit(sys.argv[2], discard="-d" in sys.argv); print(s.name)
elif cmd == "save":
    for n in edit.Editor(paths, org).save(): print(" ", n)
elif cmd == "prove":
    with stack.assemble(paths, org) as made:
        export.export(made, home / "series")
        for t in made.topics: print(t.name, "needs", *t.needs)
        print("tip", made.git("rev-parse", f"{made.tip}^{{tree}}"))
        (home/"tips").mkdir(exist_ok=True)
elif cmd == "ends":   # write the files of each topic's end below home/ends
    with stack.assemble(paths, org) as made:
        for t in made.topics:
            if sys.argv[2:] and t.name not in sys.argv[2:]: continue
            for n, c in enumerate(made.pick_topic(t)):
                if not n: continue
                d = home / "ends" / t.name / f"{n:02d}"; shutil.rmtree(d, ignore_errors=True); d.mkdir(parents=True)
                made.git.checkout(c)
                for f in made.files(c):
                    (d/f).parent.mkdir(parents=True, exist_ok=True); shutil.copy2(made.git.tree/f, d/f)
            print(t.name, n)
elif cmd == "edits":
    with stack.assemble(paths, org) as made: export.prove_edits(paths, made); print("edits ok", made.git("rev-parse", f"{made.tip}^{{tree}}"))
