#!/usr/bin/env python3
"""Measure what each patch of the five series brings: take patches out from the last of a chain on,
and run `make lab QUICK=1` after each. About 5 minutes a step, 15 steps; a finished step is not repeated.

    git clone -q /work/main /tmp/gains && cd /tmp/gains && python3 /work/s/S/measure.py [chain ...]
    python3 /work/s/S/measure.py table          # what is measured so far

Results: /tmp/gains/out/gains/<chain>-<n>.json; run it in a clone that nothing else uses, and on a quiet
machine (virtual time does not care, but the builds take the processors). A difference between two
steps of a chain is the gain of the patch that the later one took out. `gains/plain` is all series.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHAINS = {
    # joins/0007 goes first: it uses what neighbours brings
    "neighbours": ["map neighbouring folios together", "add migrated folios to the LRU in batches",
                   "free migrated folios in batches"],
    "flags": ["change flags only if they differ"],
    "bulk": ["allocate large folios in bulk for migration", "allocate small folios of mbind",
             "allocate small folios in bulk for migrate_pages", "allocate small folios of move_pages"],
    "move": ["isolate the folios of move_pages(2) together", "count several folios that are added",
             "look at the PTEs of a large folio together", "store where pages are if some",
             "queue a large folio once", "store where a folio is that move_pages(2) was",
             "look up pages of move_pages"],
}
OUT = Path("out/gains")


def run(*words: str, **more: object) -> str:
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def tree() -> str:
    run("make", "edit", "PATCH=lab/0005", "DISCARD=1")
    (found,) = Path(os.environ.get("CACHE_DIR", ".cache")).glob("linux/*/edit")
    return str(found)


def restore() -> None:
    run("git", "checkout", "-q", "kernel")
    run("git", "clean", "-fdq", "kernel")


def take_out(edit: str, words: str) -> None:
    commit = run("git", "-C", edit, "log", "--format=%h", "--fixed-strings", f"--grep={words}", "-1", "HEAD")
    run("git", "-C", edit, "revert", "-n", commit.strip())
    run("git", "-C", edit, "commit", "-q", "-m", f"lab: without '{words[:40]}'", "-m", "For a measurement.")


def lab(name: str) -> None:
    if not (OUT / f"{name}.json").exists():
        subprocess.run(["make", "lab", "QUICK=1"], check=False)  # goals may be missed
        OUT.mkdir(parents=True, exist_ok=True)
        shutil.copy("out/lab/results.json", OUT / f"{name}.json")


def rows(path: Path) -> dict[str, float]:
    keep = {}
    for one in json.loads(path.read_text())["runs"]:
        if one["kernel"] == "ours" and one["design"] == "off":
            key = f'{one["folio_kib"]} KB, move {one["move"]}, {one.get("addresses") or "move_pages"}'
            keep[key] = one["instructions_per_folio"]
    return keep


def table() -> None:
    for chain, steps in CHAINS.items():
        last = rows(OUT / "plain.json")
        for number, words in enumerate(steps, 1):
            path = OUT / f"{chain}-{number}.json"
            if not path.exists():
                continue
            now = rows(path)
            print(f"{chain}: {words}")
            for key, value in now.items():
                gain = value - last[key]
                print(f"    {key:32} {gain:+9.0f} of {value:9.0f}  {100 * gain / value:+.2f} %")
            last = now


def main() -> None:
    if sys.argv[1:] == ["table"]:
        return table()
    if run("git", "status", "--short", "kernel"):
        sys.exit("kernel/ has changes: take a clone of your own")
    lab("plain")
    for chain in sys.argv[1:] or CHAINS:
        edit = tree()
        for number, words in enumerate(CHAINS[chain], 1):
            take_out(edit, words)
            if not (OUT / f"{chain}-{number}.json").exists():
                run("make", "save")
                lab(f"{chain}-{number}")
                restore()
                run("git", "-C", edit, "reset", "-q", "--hard")
                # the tree of make edit forgets what make save has written: begin anew, with all so far
                edit = tree()
                for before in CHAINS[chain][:number]:
                    take_out(edit, before)
        restore()
        tree()


main()
