"""Entries that clones share: made once, whole, and removed when no process uses them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core import store
from harness.core.errors import HarnessError
from harness.core.paths import ROOT, Paths

# Another clone's harness: gets an entry of two files, between which it waits; then stays.
OTHER = """
import sys, time
from pathlib import Path
from harness.core import store
from harness.core.paths import Paths

def fill(fresh):
    with Path(sys.argv[1], "log").open("a") as log:
        log.write("filled ")
    (fresh / "one").touch(exist_ok=False)
    print("half", flush=True)
    time.sleep(float(sys.argv[2]))
    (fresh / "two").touch()

entry = store.get(Paths(*[Path(sys.argv[1])] * 3), "kernel", fill)
print(*sorted(path.name for path in entry.iterdir()), flush=True)
sys.stdin.read()
"""


class Clone:
    """A process that gets an entry and uses it until it is let go."""

    def __init__(self, place: Path, seconds: float) -> None:
        """Start it."""
        argv = [sys.executable, "-c", OTHER, str(place), str(seconds)]
        self.child = subprocess.Popen(
            argv, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self.child.stdout
        return self.child.stdout.readline().rstrip()

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, and wait for that."""
        self.child.send_signal(number)
        self.child.communicate()


def paths_of(place: Path) -> Paths:
    return Paths(place, place, place)


def entry(place: Path, name: str, size: int, used: int) -> Path:
    made = place / "shared" / name
    made.mkdir(parents=True)
    (made / "data").write_bytes(os.urandom(size))
    os.utime(made, (used, used))
    return made


def names(place: Path) -> set[str]:
    return {path.name for path in (place / "shared").iterdir()}


def test_of_two_clones_one_makes_an_entry_and_both_see_it_whole(tmp_path: Path) -> None:
    first, second = Clone(tmp_path, 0.5), Clone(tmp_path, 0.5)
    lines = {clone: clone.line() for clone in (first, second)}
    for clone in (first, second):
        while lines[clone] != "one two":
            assert lines[clone] == "half" or "waiting for another harness" in lines[clone]
            lines[clone] = clone.line()
    assert (tmp_path / "log").read_text() == "filled "
    assert names(tmp_path) == {"kernel"}
    for clone in (first, second):
        clone.end()


def test_what_is_not_finished_is_made_again(tmp_path: Path) -> None:
    killed = Clone(tmp_path, 60)
    assert killed.line() == "half"
    assert names(tmp_path) == {"kernel.new"}
    killed.end()
    after = Clone(tmp_path, 0)
    assert [after.line(), after.line()] == ["half", "one two"]
    after.end()

    def fail(fresh: Path) -> None:
        (fresh / "half").touch()
        raise HarnessError("no")

    with pytest.raises(HarnessError):
        store.get(paths_of(tmp_path), "other", fail)
    made = store.get(paths_of(tmp_path), "other", lambda fresh: (fresh / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    for name, used in (("new", 3000), ("old", 1000), ("middle", 2000)):
        entry(tmp_path, name, 100_000, used)
    store.evict(tmp_path / "shared", 300_000)
    assert names(tmp_path) == {"new", "middle"}
    middle = store.find(paths_of(tmp_path), "middle")
    assert middle
    os.close(store._held.pop(middle))  # as if this process had ended
    entry(tmp_path, "newer", 100_000, 4000)
    store.evict(tmp_path / "shared", 200_000)
    assert names(tmp_path) == {"middle"}


def test_an_entry_that_a_clone_uses_stays(tmp_path: Path) -> None:
    clone = Clone(tmp_path, 0)
    assert [clone.line(), clone.line()] == ["half", "one two"]
    entry(tmp_path, "free", 1000, 4000)
    (tmp_path / "shared/free.7.old").mkdir()
    kept = store.evict(tmp_path / "shared", 0)
    assert names(tmp_path) == {path.name for path in kept} == {"kernel"}
    clone.end()
    assert store.evict(tmp_path / "shared", 0) == []
    assert names(tmp_path) == set()


def test_what_a_clone_is_making_stays(tmp_path: Path) -> None:
    clone = Clone(tmp_path, 0.5)
    assert clone.line() == "half"
    store.evict(tmp_path / "shared", 0)
    assert clone.line() == "one two"
    clone.end()


def test_the_user_says_how_much_may_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry(tmp_path, "large", 300_000, 1000)

    def make(name: str) -> None:
        store.get(paths_of(tmp_path), name, lambda fresh: (fresh / "file").touch())

    monkeypatch.setenv("SHARED_GB", "")
    make("one")
    assert names(tmp_path) == {"large", "one"}
    monkeypatch.setenv("SHARED_GB", "0.0001")
    make("two")
    assert names(tmp_path) == {"one", "two"}  # both are in use
    monkeypatch.setenv("SHARED_GB", "few")
    with pytest.raises(HarnessError, match="SHARED_GB=few is not a number"):
        make("three")


def test_a_copy_is_renewed_when_its_name_changes(tmp_path: Path) -> None:
    paths, out = paths_of(tmp_path), tmp_path / "out"
    made: list[str] = []

    def copy(name: str) -> bool:
        def fill(fresh: Path) -> None:
            made.append(name)
            (fresh / name).touch()

        return store.copy(paths, name, out, fill)

    assert [copy(name) for name in ("one", "one", "two", "one")] == [False, True, False, True]
    assert made == ["one", "two"]
    assert {path.name for path in out.iterdir()} == {"one", "key"}
    assert {path.name for path in (paths.shared / "one").iterdir()} == {"one"}
