"""The series as commits in a scratch repository, and its export as mails."""

import email.utils
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel.source import Source
from harness.series.plan import Plan, Step

_APPLY_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
_EPOCH = 1767225600  # 2026-01-01 00:00 UTC; step N is dated N seconds later


def tree_differences(
    ours: Path, theirs: Path, ignore: frozenset[str] = frozenset()
) -> list[str]:
    """Return the names of files that are not the same in two kernel trees.

    Files of equal size and modification time count as the same: both trees come from the
    pristine one, and what was written since has a time of its own. `ignore` names entries
    of the top directory.
    """
    different: list[str] = []

    def scan(directory: Path) -> dict[str, os.DirEntry[str]]:
        with os.scandir(directory) as entries:
            return {entry.name: entry for entry in entries}

    def files_below(entry: os.DirEntry[str]) -> int:
        return sum(len(files) for _, _, files in os.walk(entry.path))

    def compare(relative: str) -> None:
        left, right = scan(ours / relative), scan(theirs / relative)
        for name in sorted(left.keys() | right.keys()):
            if not relative and name in ignore:
                continue
            path = f"{relative}{name}"
            mine, other = left.get(name), right.get(name)
            if mine is None or other is None:
                lone = mine or other
                assert lone is not None
                if not lone.is_dir(follow_symlinks=False) or files_below(lone):
                    different.append(path)
            elif mine.is_dir(follow_symlinks=False) and other.is_dir(follow_symlinks=False):
                compare(f"{path}/")
            elif not _same_file(mine, other):
                different.append(path)

    compare("")
    return different


def _same_file(mine: os.DirEntry[str], other: os.DirEntry[str]) -> bool:
    if mine.is_symlink() or other.is_symlink():
        both = mine.is_symlink() and other.is_symlink()
        return both and Path(mine.path).readlink() == Path(other.path).readlink()
    if mine.is_dir() or other.is_dir():
        return False
    left, right = mine.stat(), other.stat()
    if left.st_size != right.st_size or (left.st_mode ^ right.st_mode) & 0o100:
        return False
    if left.st_mtime_ns == right.st_mtime_ns:
        return True
    return Path(mine.path).read_bytes() == Path(other.path).read_bytes()


class Scratch:
    """A copy of the pristine tree in which git tracks only what the series touches.

    Untouched files are hard links to the pristine tree's: they are never written to.
    """

    def __init__(self, origin: Source, directory: Path) -> None:
        """Describe the copy of a pristine tree below `directory`, without making it."""
        self.tree = directory / "tree"
        self.pristine = origin.pristine
        self.revision = origin.revision
        self._state = directory / "state.json"
        self._name = ""
        self._address = ""

    def prepare(self, plan: Plan) -> bool:
        """Bring the tree to its pristine state and commit that; tell whether it was there."""
        self._name, self._address = email.utils.parseaddr(plan.steps[0].message.author)
        key = f"{self.pristine} {self.revision}"
        state = json.loads(self._state.read_text()) if self._state.exists() else {}
        reused = state.get("key") == key and self.tree.is_dir()
        before: list[str] = state["touched"] if reused else []
        if not reused:
            self._state.unlink(missing_ok=True)
            self._copy_pristine()
        shutil.rmtree(self.tree / ".git", ignore_errors=True)
        touched = sorted({*before, *plan.touched})
        self._state.write_text(json.dumps({"key": key, "touched": touched}))
        for name in touched:
            self._restore(name)
        self.git("init", "-q", "-b", "series")
        present = [name for name in plan.touched if (self.pristine / name).is_file()]
        if present:
            self.git("add", "-f", "--", *present)
        self.git("commit", "-q", "--allow-empty", "-m", "pristine")
        self.git("tag", "pristine")
        return reused

    def _copy_pristine(self) -> None:
        if self.tree.exists():
            shutil.rmtree(self.tree)
        self.tree.parent.mkdir(parents=True, exist_ok=True)
        process.capture(["cp", "-al", f"{self.pristine}/.", str(self.tree)])

    def _restore(self, name: str) -> None:
        path, source = self.tree / name, self.pristine / name
        path.unlink(missing_ok=True)
        if source.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, path)

    def commit(self, step: Step, paths: Paths) -> None:
        """Apply one step on top of the ones before it, and tag it."""
        patch = str((paths.patches / step.patch).resolve())
        self._am(["--empty=keep", patch], step.label, step.number)
        for name in step.overlay:
            target = self.tree / name
            if target.exists():
                raise HarnessError(f"series: {step.label}: {name} already exists in the tree")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths.overlay / name, target)
        if step.overlay:
            self.git("add", "-f", "--", *step.overlay)
        date = f"{_EPOCH + step.number} +0000"
        self.git(
            "commit",
            "-q",
            "--amend",
            "--no-edit",
            "--allow-empty",
            "--date",
            date,
            number=step.number,
        )
        self.git("tag", f"step-{step.number}")

    def _am(self, arguments: Sequence[str], what: str, number: int = 0) -> None:
        done = self._run(["am", "-q", "--whitespace=nowarn", *arguments], number)
        if done.returncode:
            self._run(["am", "--abort"], number)
            reasons = _APPLY_ERROR.findall(done.stdout) or [process.first_error(done.stdout)]
            raise HarnessError(
                f"series: {what} does not apply: {reasons[0]}", detail=process.tail(done.stdout)
            )

    def checkout(self, tag: str) -> None:
        """Put the tracked files into the state of a tag (`pristine`, `step-N`)."""
        self.git("checkout", "-q", "-f", "--detach", tag)

    def changes(self, tag: str) -> list[str]:
        """Return the files that a step changes."""
        return self.git("diff", "--name-only", "--no-renames", f"{tag}^", tag).splitlines()

    def tree_id(self, revision: str) -> str:
        """Return git's name for the contents of all tracked files."""
        return self.git("rev-parse", f"{revision}^{{tree}}").strip()

    def export(self, plan: Plan, out: Path) -> list[Path]:
        """Write the series, cover letter first, and return the files."""
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("*.patch"):
            old.unlink()
        self.git("config", "branch.series.description", plan.cover.strip() + "\n")
        self.git(
            "format-patch", "-q", "-o", str(out.resolve()), "--cover-letter",
            "--cover-from-description=subject", "--numbered", "--zero-commit", "--no-signature",
            "--no-renames", "--abbrev=12", "--stat=75", "--summary", "pristine..series",
            number=len(plan.steps),
        )  # fmt: skip
        return sorted(out.glob("*.patch"))

    def reapply(self, exported: Sequence[Path], expected: str) -> None:
        """Apply an exported series to the pristine tree, and compare what comes out."""
        self.checkout("pristine")
        self._am(
            ["--empty=drop", *(str(path.resolve()) for path in exported)], "the exported series"
        )
        if self.tree_id("HEAD") != expected:
            names = self.git("diff", "--name-only", expected, "HEAD").split()
            raise HarnessError(f"series: the exported series gives another {names[0]}")

    def git(self, *arguments: str, number: int = 0) -> str:
        """Run git, which must not fail; `number` is the step that dates a new commit."""
        done = self._run(arguments, number)
        if done.returncode:
            raise HarnessError(
                f"series: git {arguments[0]}: {process.first_error(done.stdout)}",
                detail=process.tail(done.stdout),
            )
        return done.stdout

    def _run(self, arguments: Sequence[str], number: int) -> subprocess.CompletedProcess[str]:
        # Neither the user's configuration nor a surrounding repository may matter.
        env = {
            name: value
            for name, value in process.environment().items()
            if not name.startswith("GIT_")
        }
        for role in ("AUTHOR", "COMMITTER"):
            env[f"GIT_{role}_NAME"] = self._name
            env[f"GIT_{role}_EMAIL"] = self._address
            env[f"GIT_{role}_DATE"] = f"{_EPOCH + number} +0000"
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "TZ": "UTC"}
        env["GIT_CEILING_DIRECTORIES"] = str(self.tree.parent)
        return subprocess.run(
            ["git", "-c", "core.abbrev=12", "-c", "gc.auto=0", *arguments],
            cwd=self.tree,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
