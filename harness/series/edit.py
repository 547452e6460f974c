"""`make edit` and `make save`: change a patch as a commit in a git tree of the whole kernel.

The tree is <home of the source>/edit. Branch `series` has one commit a patch, whose message
ends with the patch's name; tag `saved` is what kernel/patches holds. The user works on branch
`edit`, which starts at tag `at`, the patch that was asked for. For `make save` git rebases and
folds fixups; most lines refuse an edit that no patch would keep, and prove the written patches.
"""

import json
import re
import shutil
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import source, topics
from harness.kernel import tree as patches
from harness.kernel.source import Source
from harness.kernel.stack import Git
from harness.kernel.topics import Step
from harness.series import rules

_TAG = re.compile(r"\n*^Patch: (\S+)$", re.MULTILINE)
_FIXUP = re.compile(r"^(?:fixup|squash|amend)! ")
_PLACES = re.compile(r"^(?:index [0-9a-f]+\.\.|@@ -).*$", re.MULTILINE)


@dataclass
class Commit:
    """One commit of the edit tree.

    `name` is that of the patch that it was made from, '' if the user made it, and `target` that
    of the patch that it becomes; `text` is the patch without the files that it brings, `added`.
    """

    id: str
    name: str
    text: str
    added: list[str]
    target: str = ""

    @property
    def subject(self) -> str:
        """First line of its message."""
        return rules.header(self.text, "Subject")

    def check_message(self) -> None:
        """Refuse what could not be mailed."""
        if problems := rules.patch_problems(self.text, self.added):
            what = self.name or f"new commit '{self.subject}'"
            raise HarnessError(f"{what}: {problems[0]}", "\n".join(problems[1:]))


def name_targets(commits: Sequence[Commit]) -> None:
    """Give each its number in its topic; a new one belongs to the topic of the one before."""
    topic, number = next(commit.name for commit in commits if commit.name).split("/")[0], 0
    for commit in commits:
        old, _, patch = commit.name.partition("/")
        topic, number = (topic, number + 1) if old in ("", topic) else (old, 1)
        words = re.sub(r"[^a-z0-9]+", " ", commit.subject.lower())
        words = textwrap.shorten(words, 50, placeholder="").replace(" ", "-")
        slug = re.sub(r"^\d+-", "", patch) or f"{words}.patch"
        commit.target = f"{topic}/{number:04d}-{slug}"


class Editor:
    """The git tree in which patches are edited."""

    def __init__(self, paths: Paths, origin: Source) -> None:
        """Describe the tree for a source, without making it."""
        self._paths = paths
        self._origin = origin
        self.tree = origin.home / "edit"
        self._state = self.tree / ".git" / "harness.json"
        self._steps = topics.all_steps(topics.read(paths, whole=False))
        self._adds = {
            f"{topic}/{patch}": adds
            for topic in {step.topic for step in self._steps}
            for patch, *adds in topics.lines_of(paths.patches / topic / "series")
        }
        self._git = Git(self.tree, self._steps)

    def edit(self, wanted: str, *, discard: bool) -> Step:
        """Check the tree out at a patch; first make the tree and the commits if need be."""
        step = topics.find(topics.all_steps(topics.read(self._paths)), wanted)
        state = self._known()
        if state.get("revision") != self._origin.revision:
            self._make()
            state = {}
        elif state["key"] and not discard and (what := self._unsaved()):
            raise HarnessError(f"{what} in {self.tree}: make save it, or DISCARD=1 drops it")
        if self._rebasing():
            self._git("rebase", "--abort")
        self._git.checkout("HEAD")
        self._git("clean", "-qfd")
        self._adopt("saved" if state.get("key") == self._key() else self._commit())
        self._park(step.name)
        return step

    def save(self) -> list[str]:
        """Write the edit back to kernel/patches and kernel/overlay; return what changed."""
        state = self._known()
        if not state:
            raise HarnessError("nothing is edited: make edit PATCH=<name> comes first")
        if state["key"] != self._key():
            raise HarnessError(
                "kernel/patches or kernel/overlay changed since make edit: put them back and "
                "make save, or drop the edit with make edit PATCH=<name> DISCARD=1"
            )
        name = self._name("at")
        self._rebase(name)
        try:
            old, new = self._read("saved"), self._read("series")
            self._attribute(new)
            name_targets(new)
            written = self._write(old, new)
            made = self._proven() if written else "series"
            if not made:  # old line numbers lead somewhere else: write new ones
                written += self._write([], new)
                made = self._proven()
            if not made:
                raise HarnessError("what was written to kernel/patches is not the edit")
            self._adopt(made)
            name = next(commit.target for commit in new if commit.name == name)
        finally:
            self._park(name)
        return list(dict.fromkeys(written))

    def _make(self) -> None:
        with ui.step("edit tree") as progress:
            shutil.rmtree(self.tree, ignore_errors=True)
            self.tree.mkdir(parents=True)
            self._git("init", "-q")
            self._git("config", "gc.auto", "0")
            for path in sorted(self._origin.pristine.iterdir()):
                progress.progress(f"copying and committing {path.name}")
                process.capture(["cp", "-a", str(path), str(self.tree)])
                # one pack for all files, quickly, instead of a file for each
                pack = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
                self._git(*pack, "add", "-f", path.name)
            self._git("commit", "-q", "-m", f"Linux {self._origin.version}")
            self._git("tag", "pristine")
            self._record("")
            progress.done(f"Linux {self._origin.version} in {self.tree}")

    def _commit(self) -> str:
        """Commit kernel/patches and kernel/overlay; return the last commit."""
        with ui.step("edit commits") as progress:
            self._git.checkout("pristine")
            self._git.apply_steps(self._paths, self._steps, self._origin.version, tag="Patch: {}")
            progress.done(f"{len(self._steps)} patches")
        return self._git("rev-parse", "HEAD")

    def _adopt(self, commit: str) -> None:
        """Note that a commit is what kernel/patches and kernel/overlay hold."""
        self._git.checkout(commit)
        self._git("tag", "-f", "saved")
        self._git("branch", "-q", "-f", "series")
        self._record(self._key())

    def _record(self, key: str) -> None:
        jsonio.write(self._state, {"revision": self._origin.revision, "key": key})

    def _known(self) -> dict[str, str]:
        """Return what was recorded; damage is an error, since the tree may hold edits."""
        return jsonio.load(dict[str, str], self._state) if self._state.exists() else {}

    def _key(self) -> str:
        """Name the content of kernel/patches and kernel/overlay, apart from series files."""
        parts = [(step.name, step.text) for step in self._steps]
        files = topics.overlay_files(self._paths)
        parts += [(name, topics.read_text(self._paths.overlay / name)) for name in files]
        return jsonio.digest(json.dumps(parts))

    def _park(self, name: str) -> None:
        """Put branch `edit` at a patch of `series`, where the next edit starts."""
        if not self._rebasing():
            commit = self._commit_of(name, "series") or "series"
            self._git("checkout", "-q", "-B", "edit", commit)
            self._git("tag", "-f", "at", "edit")

    def _commit_of(self, name: str, revision: str) -> str:
        grep = ("--fixed-strings", f"--grep=Patch: {name}")
        return self._git("log", "-1", "--format=%H", *grep, f"pristine..{revision}")

    def _rebasing(self) -> bool:
        return (self.tree / ".git/rebase-merge").exists()

    def _same(self, first: str, other: str) -> bool:
        return len(set(self._git("rev-parse", first, other).split())) == 1

    def _unsaved(self) -> str:
        if self._rebasing():
            return "a rebase is going on"
        if lines := self._git("status", "--porcelain").splitlines():
            return f"unsaved change of {lines[0][3:]}"
        if not self._same("edit", "at") or not self._same("series", "saved"):
            return "unsaved commits are"
        return ""

    def _name(self, revision: str) -> str:
        tags = _TAG.findall(self._git("log", "-1", "--format=%B", revision))
        return str(tags[0]) if tags else ""

    def _rebase(self, at: str) -> None:
        """Take what is not committed into patch `at`, then make `series` whole again."""
        branch = self._git("branch", "--show-current")
        changed = self._git("status", "--porcelain")
        if self._rebasing():
            if left := self._git("diff", "--name-only", "--diff-filter=U").split():
                raise HarnessError(
                    f"{left[0]} is not merged yet: resolve it in {self.tree}, git add it, "
                    "then make save again"
                )
            self._run_rebase("--continue")
        elif branch == "edit":
            for commit in self._read("edit", "at"):
                if not commit.name and not _FIXUP.match(commit.subject):
                    commit.check_message()
            if changed:
                self._git("add", "--all")
                head = self._name("HEAD") == at
                fixup = ("--fixup", self._commit_of(at, "HEAD"))
                self._git("commit", "-q", *(("--amend", "--no-edit") if head else fixup))
            self._run_rebase("--onto", "edit", "at", "series")
        elif branch != "series" or changed or self._same("series", "saved"):  # or aborted
            raise HarnessError(f"{self.tree} is not on branch edit: git checkout edit")
        subjects = self._git("log", "--format=%s", "pristine..series").splitlines()
        if any(map(_FIXUP.match, subjects)):
            self._run_rebase("--interactive", "--autosquash", "pristine", "series")

    def _run_rebase(self, *arguments: str) -> None:
        status, output = self._git.run("rebase", *arguments)
        if status:
            raise HarnessError(
                f"git rebase stopped: resolve the conflict in {self.tree}, git add the files, "
                "then make save again (git rebase --abort && git checkout edit takes you back)",
                detail=process.tail(output),
            )

    def _read(self, revision: str, since: str = "pristine") -> list[Commit]:
        """Return the commits up to a revision, oldest first."""
        span = f"{since}..{revision}"
        listing = ("--reverse", "--no-renames", "--name-status", "--format=%x00%H")
        listed = self._git("log", *listing, span).split("\0")[1:]
        commits = []
        with tempfile.TemporaryDirectory() as scratch:
            self._git(
                "format-patch", "-q", "-N", "-o", scratch, "--zero-commit", "--no-signature",
                "--no-renames", "--stat=75", "--diff-filter=a", "--always", span,
            )  # fmt: skip
            for files, mail in zip(listed, sorted(Path(scratch).iterdir()), strict=True):
                message, dashes, rest = topics.read_text(mail).partition("\n---\n")
                name = next(iter(_TAG.findall(message)), "")
                text = _TAG.sub("", message).rstrip("\n") + (dashes or "\n") + rest
                commit, *changes = files.splitlines()
                added = [line[2:] for line in changes if line.startswith("A\t")]
                commits.append(Commit(commit, name, text, added))
        return commits

    def _attribute(self, commits: Sequence[Commit]) -> None:
        """Refuse commits that do not say which patch they are, and files that none brings."""
        kept = [commit.name for commit in commits if commit.name]
        if twice := [name for name in kept if kept.count(name) > 1]:
            raise HarnessError(f"{twice[0]} is there twice: take one commit's Patch: line out")
        for number, step in enumerate(self._steps):
            if kept[number : number + 1] != [step.name]:
                raise HarnessError(
                    f"{step.name} is not in its place among the commits: make save does not "
                    "drop, reorder or rename patches (do that in kernel/patches)"
                )
        for commit in commits:
            if _FIXUP.match(commit.subject):
                raise HarnessError(f"no patch has the subject of the commit '{commit.subject}'")
            commit.check_message()
            if not commit.name:
                continue
            topic, patch = commit.name.split("/")
            line = f"the line of {patch} in kernel/patches/{topic}/series"
            adds = self._adds[commit.name]
            for file in commit.added:
                if not topics.covers(adds, file):
                    raise HarnessError(f"{file} is new, and no patch brings it: add it to {line}")
            for name in adds:
                if not any(topics.covers([name], file) for file in commit.added):
                    raise HarnessError(
                        f"{commit.name} no longer brings {name}: take it out of {line}"
                    )

    def _write(self, old: Sequence[Commit], new: Sequence[Commit]) -> list[str]:
        """Write patches, series and overlay files; return what changed.

        A patch stays as it is if its message and its changes, wherever they are, are in `old`.
        """
        root, overlay = self._paths.patches, self._paths.overlay
        before = {commit.name: _PLACES.sub("", commit.text) for commit in old}
        texts = {step.name: step.text for step in self._steps}
        wanted = {
            commit.target: texts[commit.name]
            if before.get(commit.name) == _PLACES.sub("", commit.text)
            else commit.text
            for commit in new
        }
        written = []
        for name in texts.keys() - wanted.keys():
            (root / name).unlink(missing_ok=True)
            written.append(f"kernel/patches/{name} (renamed)")
        for name, text in wanted.items():
            if texts.get(name) != text:
                (root / name).write_bytes(text.encode(errors="surrogateescape"))
                written.append(f"kernel/patches/{name}")
        for topic, members in groupby(new, lambda commit: commit.target.split("/")[0]):
            path = root / topic / "series"
            lines = [
                [commit.target.split("/")[1], *self._adds.get(commit.name, commit.added)]
                for commit in members
            ]
            if lines != topics.lines_of(path):
                path.write_text("".join(" ".join(line) + "\n" for line in lines))
                written.append(f"kernel/patches/{topic}/series")
        with tempfile.TemporaryDirectory() as scratch:
            for commit in new:
                if commit.added:
                    restore = ("restore", "--worktree", f"--source={commit.id}", "--")
                    self._git(f"--work-tree={scratch}", *restore, *commit.added)
            for file in (file for commit in new for file in commit.added):
                if not patches.same(Path(scratch) / file, overlay / file):
                    patches.replace(Path(scratch) / file, overlay / file)
                    written.append(f"kernel/overlay/{file}")
        gone = set(topics.overlay_files(self._paths))
        for file in gone.difference(*(commit.added for commit in new)):
            (overlay / file).unlink()
            written.append(f"kernel/overlay/{file} (removed)")
        self._steps = topics.all_steps(topics.read(self._paths))
        return written

    def _proven(self) -> str:
        """Return the commit that kernel/patches gives if that is the edited tree, or ''."""
        try:
            commit = self._commit()
        except HarnessError as error:
            ui.plain(str(error))
            return ""
        return commit if self._same("series^{tree}", f"{commit}^{{tree}}") else ""


def main_edit(paths: Paths, wanted: str, discard: bool) -> int:
    """Run `make edit`."""
    editor = Editor(paths, source.get(paths))
    with ui.step("edit") as progress:
        step = editor.edit(wanted, discard=discard)
        progress.done(step.name)
    ui.plain(
        f"""
  cd {editor.tree}
  Change files there: they are as of {step.name}. Then, here:
      make save
  takes what you changed into this patch and puts the later ones on top. You may also commit:
  `git commit --fixup <commit>` goes to the patch of that commit (git log names them); a commit
  with a subject of its own becomes a new patch behind this one."""
    )
    return 0


def main_save(paths: Paths) -> int:
    """Run `make save`."""
    editor = Editor(paths, source.get(paths))
    with ui.step("save") as progress:
        written = editor.save()
        progress.done(f"{len(written)} files written")
    for name in written:
        ui.plain(f"  {name}")
    return 0
