"""The patched kernel as commits: the one way in which patches and overlay are applied.

A small scratch repository holds the files that the stack touches, as they are in pristine
Linux, and one commit a step on top. Everything else is made from it: the trees that are built,
the topics that are mailed.
"""

import email.parser
import email.utils
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel import topics
from harness.kernel.source import Source
from harness.kernel.topics import Step, Topic

_DATE = "1767225600 +0000"  # of all commits: the same patches give the same bytes
_OPTION = re.compile(r"^\s*(?:menu)?config (\w+)", re.MULTILINE)


class Git:
    """A repository; neither the user's configuration nor one around it matters."""

    def __init__(self, tree: Path, author: str) -> None:
        """Use the repository at `tree`; commits are made in the name of `author`."""
        self.tree = tree
        name, address = email.utils.parseaddr(author)
        who = {"NAME": name, "EMAIL": address, "DATE": _DATE}
        self._environment = {
            **{f"GIT_{role}_{k}": who[k] for role in ("AUTHOR", "COMMITTER") for k in who},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CEILING_DIRECTORIES": str(tree.parent),
            "GIT_EDITOR": "true",
            "TZ": "UTC",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run git, which may fail."""
        outer = process.environment().items()
        env = {name: value for name, value in outer if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "core.abbrev=12", "-c", "core.quotePath=false", *arguments],
            cwd=self.tree,
            env=env | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output = done.stdout.decode(errors="surrogateescape")  # as it is: no other line ends
        return subprocess.CompletedProcess(done.args, done.returncode, output)

    def __call__(self, *arguments: str) -> str:
        """Run git, which must not fail."""
        done = self.run(*arguments)
        if done.returncode:
            raise HarnessError(
                f"git {arguments[0]}: {process.first_error(done.stdout)}",
                detail=process.tail(done.stdout),
            )
        return done.stdout

    def commits(self, span: str) -> list[str]:
        """Return the commits of a range, oldest first."""
        return self("rev-list", "--reverse", span).split()

    def apply(self, mails: Sequence[Path], names: Sequence[str], version: str) -> list[str]:
        """Commit mails with no fuzz; tell which of `names` does not apply, and where."""
        old = self("rev-parse", "HEAD").strip()
        options = ("--quiet", "--patch-format=mbox", "--keep-cr", "--whitespace=nowarn")
        done = self.run("am", *options, *map(str, mails))
        if done.returncode:
            counter = Path(self("rev-parse", "--git-path", "rebase-apply/next").strip())
            number = int((self.tree / counter).read_text())
            self.run("am", "--abort")
            reason = explain(done.stdout)
            raise HarnessError(
                f"{names[number - 1]} does not apply to Linux {version}: {reason}",
                detail=process.tail(done.stdout),
            )
        return self.commits(f"{old}..HEAD")


def explain(output: str) -> str:
    """Turn the words of git am into the place where a patch does not apply."""
    for pattern, words in {
        r"error: patch failed: (\S+):(\d+)": "hunk at line {1} of {0} does not fit",
        r"error: (\S+): does not exist in index": "{0} does not exist",
        r"error: (\S+): already exists in": "{0} exists already",
        r"error: corrupt patch at line (\d+)": "it is malformed at line {0} of its changes",
    }.items():
        if match := re.search(pattern, output):
            return words.format(*match.groups())
    return process.first_error(output)


def changed_files(git: Git, old: str, new: str) -> dict[str, str]:
    """Map each path that differs between two revisions to its new mode and git's hash of it."""
    found = {}
    for line in git("diff", "--raw", "--no-renames", "--no-abbrev", old, new).splitlines():
        described, path = line.split("\t")
        _, mode, _, digest, status = described.split()
        if status == "D":
            raise HarnessError(f"the patches delete {path}: the harness cannot build that")
        found[path] = f"{mode} {digest}"
    return found


@dataclass
class Stack:
    """All topics, committed one after the other on pristine Linux.

    `commits` maps the name of each step to its commit; `base` and `tip` are the commits of
    pristine Linux and of the whole stack.
    """

    git: Git
    source: Source
    topics: tuple[Topic, ...]
    base: str
    commits: dict[str, str]
    tip: str
    _picked: dict[tuple[str, ...], str] = field(default_factory=dict)

    def pick(self, steps: Sequence[Step]) -> str:
        """Commit a few steps alone on pristine Linux, and return the last commit.

        Merges as git cherry-pick does: what a step edits must not lie next to what another
        one changed that is left out.
        """
        names = tuple(step.name for step in steps)
        if names in self._picked or not names:
            return self._picked.get(names, self.base)
        known = self.pick(steps[:-1])
        self.git("checkout", "-q", "-f", "--detach", known)
        if self.git.run("cherry-pick", "--ff", self.commits[names[-1]]).returncode:
            files = self.git("diff", "--name-only", "--diff-filter=U").split()
            others = [
                step.topic
                for step in topics.all_steps(self.topics)
                if step.name not in names
                and step.topic != steps[-1].topic
                and set(files) & set(self.changes(step))
            ]
            self.git("cherry-pick", "--abort")
            raise HarnessError(
                f"{names[-1]} does not apply without {' or '.join(dict.fromkeys(others))} "
                f"({', '.join(files)}): name it in kernel/patches/{steps[-1].topic}/needs or "
                "keep the lines of the two apart"
            )
        self._picked[names] = self.git("rev-parse", "HEAD").strip()
        return self._picked[names]

    def changes(self, step: Step) -> list[str]:
        """Return the files that a step changes."""
        commit = self.commits[step.name]
        return self.git("diff", "--name-only", "--no-renames", f"{commit}^", commit).split("\n")

    def before(self, topic: Topic) -> list[Step]:
        """Return the steps of the topics that a topic needs."""
        return topics.all_steps(one for one in self.topics if one.name in topic.needs)

    def files(self, revision: str) -> dict[str, str]:
        """Map each path that differs from pristine Linux to its mode and git's hash of it."""
        return changed_files(self.git, self.base, revision)

    def options(self, revision: str) -> set[str]:
        """Return the Kconfig options that the files of the stack define at a revision."""
        found = self.git.run("grep", "-hE", r"^\s*(menu)?config ", revision, "--", "*Kconfig*")
        return {f"CONFIG_{name}" for name in _OPTION.findall(found.stdout)}

    def sync(self, revision: str, tree: Path, before: Mapping[str, object]) -> int:
        """Bring a tree that holds `before` to a revision; return how many files changed.

        A file whose content is right keeps its time: make rebuilds what depends on the others.
        """
        self.git("checkout", "-q", "-f", "--detach", revision)
        files = self.files(revision)
        changed = 0
        for path in files:
            if not same(self.git.tree / path, tree / path):
                replace(self.git.tree / path, tree / path)
                changed += 1
        for path in before.keys() - files.keys():
            pristine = self.source.pristine / path
            if not pristine.exists():
                (tree / path).unlink(missing_ok=True)
                _prune(tree / path, self.source.pristine, tree)
            elif not same(pristine, tree / path):
                replace(pristine, tree / path)
            changed += 1
        return changed


def author_of(steps: Sequence[Step]) -> str:
    """Return who wrote the first patch: the name in which the stack is committed."""
    headers = email.parser.HeaderParser()
    return (
        str(headers.parsestr(steps[0].text)["From"]) if steps else "Nobody <nobody@localhost>"
    )


def write_mails(paths: Paths, steps: Sequence[Step], where: Path, tag: str = "") -> list[Path]:
    """Write each step as a mail; a `tag` such as 'Patch: {}' ends the message with its name."""
    where.mkdir(parents=True, exist_ok=True)
    mails = []
    for number, step in enumerate(steps, 1):
        mail = where / f"{number:04d}"
        text = step.mail(paths.overlay, tag.format(step.name))
        mail.write_bytes(text.encode(errors="surrogateescape"))
        mails.append(mail)
    return mails


@contextmanager
def assemble(paths: Paths, source: Source, extra: Sequence[Path] = ()) -> Iterator[Stack]:
    """Commit the whole stack in a scratch repository, which lasts as long as the context.

    `extra` are patches without a message that go on top of everything.
    """
    parts = topics.read(paths)
    steps = topics.all_steps(parts)
    for name in (name for step in steps for name in step.overlay):
        if (source.pristine / name).exists():
            raise HarnessError(
                f"kernel/overlay/{name} exists in Linux {source.version} already"
            )
    source.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=source.home, prefix="stack-") as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        git = Git(tree, author_of(steps))
        texts = [step.text for step in steps] + [topics.read_text(path) for path in extra]
        for name in dict.fromkeys(
            name for text in texts for name in topics.touched_paths(text)
        ):
            if (source.pristine / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source.pristine / name, tree / name)
        git("init", "-q")
        if (attributes := source.pristine / ".gitattributes").exists():
            shutil.copy(attributes, tree / ".git/info/attributes")
        git("add", "-f", "--all")
        git("commit", "-q", "--allow-empty", "-m", f"Linux {source.version}")
        base = git("rev-parse", "HEAD").strip()
        mails = write_mails(paths, steps, Path(scratch) / "mails")
        names = [step.name for step in steps]
        commits = git.apply(mails, names, source.version) if steps else []
        for patch in extra:
            done = git.run("apply", "--index", "--whitespace=nowarn", str(patch.resolve()))
            if done.returncode:
                raise HarnessError(f"{patch.name} does not apply: {explain(done.stdout)}")
            git("commit", "-q", "-m", patch.name)
        tip = git("rev-parse", "HEAD").strip()
        yield Stack(git, source, parts, base, dict(zip(names, commits, strict=True)), tip)


def same(one: Path, other: Path) -> bool:
    """Tell whether two files have the same content and may both be executed, or not."""
    return (
        other.is_file()
        and one.read_bytes() == other.read_bytes()
        and one.stat().st_mode & 0o111 == other.stat().st_mode & 0o111
    )


def replace(origin: Path, target: Path) -> None:
    """Put a copy in the target's place; the target may be a hard link to a pristine file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    shutil.copyfile(origin, fresh)
    shutil.copymode(origin, fresh)
    fresh.replace(target)


def _prune(path: Path, pristine: Path, tree: Path) -> None:
    """Remove directories that only an overlay file had made."""
    for parent in path.parents:
        if parent == tree or (pristine / parent.relative_to(tree)).exists():
            return
        if any(parent.iterdir()):
            return
        parent.rmdir()
