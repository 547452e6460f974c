"""In a view of main: gains.py revert | plain | NAME...: build without a patch, boot guests, print gains.

A patch leaves by a patch that reverts it at the end of the series lab. Results: /work/s/gains/NAME.json.
"""
import json, re, subprocess, sys
from pathlib import Path
PATCHES = Path("kernel/patches")
NAMES = {
    "spare1": ["bulk-allocation/0001"],
    "lru1x": ["lru/0001"],
    "bulk2": ["bulk-allocation/0002"], "bulk3": ["bulk-allocation/0003"], "bulk4": ["bulk-allocation/0004"],
    "move1": ["move-pages/0001"], "move3": ["move-pages/0003"], "move5": ["move-pages/0005"],
    "lru1": ["lru/0001"], "lru2": ["lru/0002"],
    "neigh2": ["neighbours/0002"], "neigh3": ["neighbours/0003"], "neigh4": ["neighbours/0004"],
    "neigh4+": ["neighbours/0004", "joins/0008", "joins/0009", "joins/0010"],
    "neigh3+": ["neighbours/0003", "neighbours/0004", "joins/0008", "joins/0009", "joins/0010"],
    "lru2+": ["lru/0002", "neighbours/0004", "joins/0008", "joins/0009", "joins/0010"], "lru1+": ["lru/0001", "lru/0002", "neighbours/0004", "joins/0008", "joins/0009", "joins/0010"],
    "bulk3+": ["bulk-allocation/0003", "bulk-allocation/0004"], "move4+": ["move-pages/0004", "move-pages/0005", "lru/0002"],
    "move3+": ["move-pages/0003", "move-pages/0004", "move-pages/0005", "lru/0002"],
    "bulk2+": ["bulk-allocation/0002", "bulk-allocation/0003", "bulk-allocation/0004"],
    "join8+": ["joins/0008", "joins/0009", "joins/0010"],
    "join8": ["joins/0008"], "join10": ["joins/0010"], "bulk1": ["bulk-allocation/0001"],
    "neigh1": ["neighbours/0001"], "pte4": ["pte-batching/0004"], "pte5": ["pte-batching/0005"],
}
HERE = Path("/work/s/gains")
def run(*words, **more):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **more).stdout
def edit():
    (found,) = Path(".cache").glob("linux/*/edit")
    return str(found)
def subject(name):
    (patch,) = PATCHES.glob(name + "-*.patch")
    return re.search(r"^Subject: \[PATCH\] (.*(?:\n .*)*)", patch.read_text(), re.M)[1].replace("\n", "")
def revert(name):
    tree = edit()
    run("git", "-C", tree, "reset", "-q", "--hard")
    for one in reversed(NAMES[name]):
        commit = run("git", "-C", tree, "log", "--format=%h", "--fixed-strings", "--grep=" + subject(one)[:70], "-1", "HEAD").strip()
        subprocess.run(["git", "-C", tree, "revert", "-n", commit], check=True)
    diff = run("git", "-C", tree, "diff", "HEAD")
    run("git", "-C", tree, "reset", "-q", "--hard")
    (HERE / f"{name}.diff").write_text(diff)
def measure(name):
    from harness.core import lock
    from harness.core.paths import default_paths
    from harness.guest import suite
    from harness.lab import plan, run as lab
    from harness.lab.plan import OURS, Boot, Measurement
    series = PATCHES / "lab/series"
    before = series.read_text()
    extra = PATCHES / "lab/0099-revert.patch"
    paths = default_paths()
    try:
        if name != "plain":
            extra.write_text("From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: The copy-offload project <copy-offload@localhost>\nDate: Sat, 28 Nov 2026 23:00:00 +0000\nSubject: [PATCH] lab: without\n\nFor a measurement.\n---\n" + (HERE / f"{name}.diff").read_text())
            series.write_text(before + "0099-revert.patch\n")
        with lock.cache(paths):
            ready = {OURS: suite.prepare(paths, OURS)}
    finally:
        series.write_text(before)
        extra.unlink(missing_ok=True)
    off = Measurement("off", 0, (4, 16, 64, 1024, 2048), 16, repeat=1, moves=2, instrument="off")
    named = tuple(Measurement("off", 0, those, 16, moves=1, repeat=1, instrument="off", addresses=a) for a, those in plan.WORKLOADS.items())
    live = Measurement("live", 0, (4, 64), 16, batch_pages=None, moves=1, instrument="off")
    reclaim = tuple(Measurement("off", 0, (kib,), 32, moves=1, instrument="off", addresses="reclaim") for kib in (64, 4))
    if name.split("/")[0] in ("plain", "bulk2+", "bulk3+", "spare1"):
        more = [Boot("reclaim-off", OURS, 0, reclaim)]
    else:
        more = []
    boots = [*more, Boot("ours-off", OURS, 0, (off,)), Boot("workloads-ours", OURS, 0, named)]
    if name in ("plain", "join8+"):
        boots.append(Boot("live", OURS, 0, (live,)))
    printed = {}
    for boot in list(boots):
        try:
            printed |= lab.measure(lab.Lab(paths, ready, paths.out / "gains" / name / boot.name), name, [boot], {})
        except Exception as error:
            print("FAILED", boot.name, error); boots.remove(boot)
    rows = {}
    for boot in boots:
        for r in lab.runs_of(boot, printed[boot.name], "none", 4.9):
            rows[f"{r.design} {r.folio_kib} KB, move {r.move}, {r.addresses}"] = r.instructions_per_folio
    (HERE / f"{name}.json").write_text(json.dumps(rows, indent=1))
def table():
    plain = json.loads((HERE / "plain.json").read_text())
    for name in NAMES:
        if (HERE / f"{name}.json").exists():
            print(name, subject(NAMES[name][0]))
            for key, value in json.loads((HERE / f"{name}.json").read_text()).items():
                gain = value - plain[key]
                if abs(gain) > 0.002 * value:
                    print(f"    {key:36} {value:9.0f} without, {plain[key]:9.0f} with: {100 * gain / value:+.2f} %")
if __name__ == "__main__":
    if sys.argv[1] == "revert":
        for name in sys.argv[2:] or NAMES:
            try:
                revert(name); print(name, "reverts")
            except subprocess.CalledProcessError:
                print(name, "conflicts"); print(run("git", "-C", edit(), "status", "--short", "-uno"))
                run("git", "-C", edit(), "reset", "-q", "--hard")
    elif sys.argv[1] == "table":
        table()
    else:
        for name in sys.argv[1:]:
            measure(name)
