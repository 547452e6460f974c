"""`make edit` and `make save`: change a patch as a commit in a git tree of the whole kernel.

The tree is <home of the source>/edit. Branch `series` has one commit a patch, whose message
ends with the patch's name; tag `saved` is what kernel/patches holds. The user works on branch
`edit`, which starts at tag `at`, the patch that was asked for. `make save` puts the later
patches on `edit` with git rebase, folds fixups with --autosquash, and writes back what changed.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core import jsonio, process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import source, stack, topics
from harness.kernel.source import Source
from harness.kernel.stack import Git
from harness.kernel.topics import Step
from harness.series import rules

_TAG = re.compile(r"\n*^Patch: (\S+)$", re.MULTILINE)
_FIXUP = re.compile(r"^(?:fixup|squash|amend)! ")
_DIRTY = (
    "kernel/patches or kernel/overlay changed since make edit: put them back and make save, or "
    "drop the edit with make edit PATCH=<name> DISCARD=1"
)


@dataclass
class Commit:
    """One commit as `make save` writes it: a patch, and the files that it brings.

    `name` is '' for a commit that the user made; `added` maps a path to its mode and git's
    hash of its content.
    """

    id: str
    name: str
    text: str
    added: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """First line of its message."""
        return rules.parse_message(self.text).subject

    def same(self, other: "Commit") -> bool:
        """Tell whether the patch has the same message and changes, wherever they are."""
        return _without_places(self.text) == _without_places(other.text)


def _without_places(text: str) -> str:
    return re.sub(r"^(index [0-9a-f]+\.\.|@@ -).*$", "", text, flags=re.MULTILINE)


def parse_mail(identity: str, text: str) -> Commit:
    """Read what git format-patch wrote, and take the patch's name out of its message."""
    message, dashes, rest = text.partition("\n---\n")
    names = _TAG.findall(message)
    clean = _TAG.sub("", message).rstrip("\n") + (dashes or "\n") + rest
    return Commit(identity, names[0] if names else "", clean)


def attribute(
    commits: Sequence[Commit], steps: Sequence[Step], adds: Callable[[Step], list[str]]
) -> None:
    """Refuse commits that do not say which patch they are, or files that no patch brings."""
    known = {step.name: step for step in steps}
    kept = [commit.name for commit in commits if commit.name]
    if twice := [name for name in kept if kept.count(name) > 1]:
        raise HarnessError(f"{twice[0]} is there twice: take one commit's Patch: line out")
    for number, step in enumerate(steps):
        if kept[number : number + 1] != [step.name]:
            raise HarnessError(
                f"{step.name} is not in its place among the commits: make save does not drop, "
                "reorder or rename patches (do that in kernel/patches)"
            )
    for commit in commits:
        if _FIXUP.match(commit.subject):
            raise HarnessError(f"no patch has the subject of the commit '{commit.subject}'")
        check_message(commit)
        if commit.name:
            check_files(known[commit.name], list(commit.added), adds(known[commit.name]))


def check_message(commit: Commit) -> None:
    """Refuse a commit that could not be mailed."""
    if problems := rules.patch_problems(commit.text, list(commit.added)):
        what = commit.name or f"new commit '{commit.subject}'"
        raise HarnessError(f"{what}: {problems[0]}", "\n".join(problems[1:]))


def check_files(step: Step, added: Sequence[str], adds: Sequence[str]) -> None:
    """Refuse new files that the patch's line in series does not name."""
    line = f"the line of {step.patch} in kernel/patches/{step.topic}/series"
    for file in added:
        if not topics.covers(adds, file):
            raise HarnessError(f"{file} is new, and no patch brings it: add it to {line}")
    for name in adds:
        if not any(topics.covers([name], file) for file in added):
            raise HarnessError(f"{step.name} no longer brings {name}: take it out of {line}")


def new_names(commits: Sequence[Commit]) -> dict[str, str]:
    """Return the name of each commit's patch, by its id: a new one shifts those behind it."""
    topic = next(commit.name for commit in commits if commit.name).split("/")[0]
    parts: dict[str, list[Commit]] = {}
    for commit in commits:
        topic = commit.name.split("/")[0] or topic
        parts.setdefault(topic, []).append(commit)
    found = {}
    for topic, members in parts.items():
        renumber = not all(commit.name for commit in members)
        for number, commit in enumerate(members, 1):
            slug = re.sub(r"[^a-z0-9]+", "-", commit.subject.lower())[:50].strip("-") + ".patch"
            slug = re.sub(r"^\d+-", "", commit.name.split("/")[-1]) or slug
            found[commit.id] = f"{topic}/{number:04d}-{slug}" if renumber else commit.name
    return found


def new_series(text: str, commits: Sequence[Commit], names: dict[str, str]) -> str:
    """Return a topic's series file with its new names and a line for each new patch."""
    lines, queue = [], list(commits)

    def insert() -> None:
        while queue and not queue[0].name:
            commit = queue.pop(0)
            lines.append(" ".join([names[commit.id].split("/")[1], *commit.added]))

    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words:
            insert()
            lines.append(line.replace(words[0], names[queue.pop(0).id].split("/")[1], 1))
        else:
            lines.append(line)
    insert()
    return "\n".join(lines) + "\n"


class Editor:
    """The git tree in which patches are edited."""

    def __init__(self, paths: Paths, origin: Source) -> None:
        """Describe the tree for a source, without making it."""
        self._paths = paths
        self._origin = origin
        self.tree = origin.home / "edit"
        self._state = self.tree / ".git" / "harness.json"
        self._steps = topics.all_steps(topics.read(paths, whole=False))
        topic_names = {step.topic for step in self._steps}
        self._series = {
            one: (paths.patches / one / "series").read_text() for one in topic_names
        }
        self._git = Git(self.tree, stack.author_of(self._steps))

    def edit(self, wanted: str, *, discard: bool) -> Step:
        """Check the tree out at a patch; first make the tree and the commits if need be."""
        step = topics.find(topics.all_steps(topics.read(self._paths)), wanted)
        state = self._known() if self._state.exists() else {}
        if state.get("revision") != self._origin.revision:
            self._make()
            state = {}
        elif state["key"] and not discard and (what := self._unsaved()):
            raise HarnessError(f"{what} in {self.tree}: make save it, or DISCARD=1 drops it")
        if self._rebasing():
            self._git("rebase", "--abort")
        self._git("checkout", "-q", "-f", "--detach")
        self._git("clean", "-qfd")
        if state.get("key") != self._key():
            self._commit()
        self._git("branch", "-q", "-f", "series", "saved")
        self._park(step.name)
        return step

    def save(self) -> list[str]:
        """Write the edit back to kernel/patches and kernel/overlay; return what changed."""
        if not self._state.exists():
            raise HarnessError("nothing is edited: make edit PATCH=<name> comes first")
        if self._known().get("key") != self._key():
            raise HarnessError(_DIRTY)
        name = self._name("at")
        self._rebase(topics.find(self._steps, name))
        try:
            old, new = self._read("saved"), self._read("series")
            attribute(new, self._steps, self._adds)
            names = new_names(new)
            written = self._write(old, new, names, refresh=False)
            if written and not self._proven():
                written = self._write(old, new, names, refresh=True)
                if not self._proven():
                    raise HarnessError("what was written to kernel/patches is not the edit")
            self._steps = topics.all_steps(topics.read(self._paths))
            if all(names[one.id] == one.name for one in new):
                self._git("tag", "-f", "saved", "series")
                self._record(self._key())
            else:  # commits bear old names
                name = next(names[one.id] for one in new if one.name == name)
                self._commit()
                self._git("branch", "-q", "-f", "series", "saved")
        finally:
            self._park(name)
        return written

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
            progress.done(f"Linux {self._origin.version} in {self.tree}")

    def _commit(self) -> None:
        with ui.step("edit commits") as progress, tempfile.TemporaryDirectory() as scratch:
            self._record(key="")  # until all are committed
            self._git("checkout", "-q", "--detach", "pristine")
            mails = stack.write_mails(self._paths, self._steps, Path(scratch), "Patch: {}")
            names = [step.name for step in self._steps]
            progress.progress(f"applying {len(mails)} patches")
            self._git.apply(mails, names, self._origin.version)
            self._git("tag", "-f", "saved")
            self._record(self._key())
            progress.done(f"{len(mails)} patches")

    def _record(self, key: str) -> None:
        jsonio.write(self._state, {"revision": self._origin.revision, "key": key})

    def _known(self) -> dict[str, str]:
        """Return what was recorded; damage is an error, since the tree may hold edits."""
        return jsonio.load(dict[str, str], self._state)

    def _key(self) -> str:
        """Name the content of kernel/patches and kernel/overlay, apart from series files."""
        parts = [(step.name, step.text) for step in self._steps]
        files = topics.overlay_files(self._paths)
        parts += [(name, topics.read_text(self._paths.overlay / name)) for name in files]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _park(self, name: str) -> None:
        """Put branch `edit` at a patch of `series`, where the next edit starts."""
        if self._rebasing():
            return
        self._git("checkout", "-q", "-B", "edit", self._commit_of(name, "series") or "series")
        self._git("tag", "-f", "at", "edit")

    def _commit_of(self, name: str, revision: str) -> str:
        grep = ("--fixed-strings", f"--grep=Patch: {name}")
        return self._git("log", "-1", "--format=%H", *grep, f"pristine..{revision}").strip()

    def _rebasing(self) -> bool:
        return (self.tree / ".git/rebase-merge").exists()

    def _branch(self) -> str:
        return self._git.run("symbolic-ref", "-q", "--short", "HEAD").stdout.strip()

    def _same(self, one: str, other: str) -> bool:
        return len(set(self._git("rev-parse", one, other).split())) == 1

    def _unsaved(self) -> str:
        if self._rebasing():
            return "a rebase is going on"
        if lines := self._git("status", "--porcelain").splitlines():
            return f"unsaved change of {lines[0][3:]}"
        if not self._same("edit", "at") or not self._same("series", "saved"):
            return "unsaved commits are"
        return ""

    def _name(self, revision: str) -> str:
        found = _TAG.findall(self._git("log", "-1", "--format=%B", revision))
        return found[0] if found else ""

    def _adds(self, step: Step) -> list[str]:
        lines = topics.lines_of(self._paths.patches / step.topic / "series")
        return next((words[1:] for words in lines if words[0] == step.patch), [])

    def _rebase(self, at: Step) -> None:
        """Take what is not committed into the patch, then make `series` whole again."""
        if self._rebasing():
            if left := self._git("diff", "--name-only", "--diff-filter=U").split():
                raise HarnessError(
                    f"{left[0]} is not merged yet: resolve it in {self.tree}, git add it, "
                    "then make save again"
                )
            self._run_rebase("--continue")
        elif self._branch() == "edit":
            status = self._git("status", "--porcelain", "--untracked-files=all").splitlines()
            for file in (line[3:] for line in status if line.startswith(("??", "A"))):
                if not topics.covers(self._adds(at), file):
                    check_files(at, [file], [])
            for commit in self._read("edit"):
                if not commit.name and not _FIXUP.match(commit.subject):
                    check_message(commit)
            if status:
                self._git("add", "--all")
                head = self._name("HEAD") == at.name
                fixup = ("--fixup", self._commit_of(at.name, "HEAD"))
                self._git("commit", "-q", *(("--amend", "--no-edit") if head else fixup))
            self._run_rebase("--onto", "edit", "at", "series")
        elif (
            self._branch() != "series"
            or self._git("status", "--porcelain")
            or (self._same("series", "saved") and not self._same("edit", "at"))  # aborted
        ):
            raise HarnessError(f"{self.tree} is not on branch edit: git checkout edit")
        subjects = self._git("log", "--format=%s", "pristine..series").splitlines()
        if any(map(_FIXUP.match, subjects)):
            self._run_rebase("--interactive", "--autosquash", "pristine", "series")

    def _run_rebase(self, *arguments: str) -> None:
        done = self._git.run("rebase", *arguments)
        if done.returncode:
            raise HarnessError(
                f"git rebase stopped: resolve the conflict in {self.tree}, git add the files, "
                "then make save again (git rebase --abort && git checkout edit takes you back)",
                detail=process.tail(done.stdout),
            )

    def _read(self, revision: str) -> list[Commit]:
        span = f"pristine..{revision}"
        commits = []
        with tempfile.TemporaryDirectory() as scratch:
            self._git(
                "format-patch", "-q", "-N", "-o", scratch, "--zero-commit", "--no-signature",
                "--no-renames", "--stat=75", "--diff-filter=a", "--always", span,
            )  # fmt: skip
            mails = sorted(Path(scratch).iterdir())
            for identity, mail in zip(self._git.commits(span), mails, strict=True):
                commits.append(parse_mail(identity, topics.read_text(mail)))
        added = {commit.id: commit.added for commit in commits}
        raw = ("--raw", "--no-abbrev", "--no-renames", "--diff-filter=A")
        current = ""
        for line in self._git("log", *raw, "--format=commit %H", span).splitlines():
            words = line.split()
            if line.startswith("commit "):
                current = words[1]
            elif words:
                added[current][line.split("\t")[1]] = words[1], words[3]
        return commits

    def _write(
        self,
        old: Sequence[Commit],
        new: Sequence[Commit],
        names: dict[str, str],
        *,
        refresh: bool,
    ) -> list[str]:
        """Write patches, series and overlay files; only what changed, unless `refresh`."""
        root, written = self._paths.patches, []
        before = {commit.name: commit for commit in old}
        texts = {step.name: step.text for step in self._steps}
        wanted = {}
        for commit in new:
            known = before.get(commit.name)
            keep = known is not None and not refresh and commit.same(known)
            wanted[names[commit.id]] = texts[commit.name] if keep else commit.text
        for name in texts.keys() - wanted.keys():
            (root / name).unlink(missing_ok=True)
            written.append(f"kernel/patches/{name} (renamed)")
        for name, text in wanted.items():
            if texts.get(name) != text:
                (root / name).write_bytes(text.encode(errors="surrogateescape"))
                written.append(f"kernel/patches/{name}")
        for topic in dict.fromkeys(name.split("/")[0] for name in wanted):
            members = [one for one in new if names[one.id].startswith(f"{topic}/")]
            if not all(one.name for one in members):
                text = new_series(self._series[topic], members, names)
                (root / topic / "series").write_text(text)
                written.append(f"kernel/patches/{topic}/series")
        have = {path: what for one in old for path, what in one.added.items()}
        want = {path: what for one in new for path, what in one.added.items()}
        for path, (mode, digest) in want.items():
            if have.get(path) != (mode, digest):
                target = self._paths.overlay / path
                target.parent.mkdir(parents=True, exist_ok=True)
                content = self._git("cat-file", "blob", digest)
                target.write_bytes(content.encode(errors="surrogateescape"))
                target.chmod(0o755 if mode == "100755" else 0o644)
                written.append(f"kernel/overlay/{path}")
        for path in have.keys() - want.keys():
            (self._paths.overlay / path).unlink(missing_ok=True)
            written.append(f"kernel/overlay/{path} (removed)")
        return written

    def _proven(self) -> bool:
        """Tell whether kernel/patches gives the edited tree."""
        expected = stack.changed_files(self._git, "pristine", "series")
        try:
            with stack.assemble(self._paths, self._origin) as made:
                return made.files(made.tip) == expected
        except HarnessError as error:
            ui.plain(str(error))
            return False


def main_edit(paths: Paths, wanted: str, *, discard: bool) -> int:
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
