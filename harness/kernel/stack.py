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
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

    def __init__(self, tree: Path, steps: Sequence[Step]) -> None:
        """Use the repository at `tree`; commits are made in the name of the first author."""
        self.tree = tree
        mail = email.parser.HeaderParser().parsestr(steps[0].text if steps else "")
        name, address = email.utils.parseaddr(str(mail["From"] or "Nobody <nobody@localhost>"))
        who = {"NAME": name, "EMAIL": address, "DATE": _DATE}
        self._environment = {
            **{f"GIT_{role}_{k}": who[k] for role in ("AUTHOR", "COMMITTER") for k in who},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CEILING_DIRECTORIES": str(tree.parent),
            "GIT_EDITOR": "true",
            "TZ": "UTC",
        }

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run git, which may fail; return its status and what it printed."""
        options = ("-c", "core.abbrev=12", "-c", "core.quotePath=false")
        return process.attempt(["git", *options, *arguments], self.tree, env=self._environment)

    def __call__(self, *arguments: str) -> str:
        """Run git, which must not fail; return what it printed."""
        status, output = self.run(*arguments)
        if status:
            error = f"git {arguments[0]}: {process.first_error(output)}"
            raise HarnessError(error, process.tail(output))
        return output.removesuffix("\n")

    def checkout(self, revision: str) -> None:
        """Make the tree that of a revision."""
        self("checkout", "-q", "-f", "--detach", revision)

    def commits(self, span: str) -> list[str]:
        """Return the commits of a range, oldest first."""
        return self("rev-list", "--reverse", span).split()

    def apply(self, mails: Sequence[Path], names: Sequence[str], version: str) -> list[str]:
        """Commit mails with no fuzz; tell which of `names` does not apply, and where."""
        if not mails:
            return []
        old = self("rev-parse", "HEAD")
        options = ("--quiet", "--patch-format=mbox", "--keep-cr", "--whitespace=nowarn")
        status, output = self.run("am", *options, *map(str, mails))
        if status:
            counter = self.tree / self("rev-parse", "--git-path", "rebase-apply/next")
            name = names[int(counter.read_text()) - 1]
            self("am", "--abort")
            error = f"{name} does not apply to Linux {version}: {process.first_error(output)}"
            raise HarnessError(error, process.tail(output))
        return self.commits(f"{old}..HEAD")

    def apply_steps(
        self, paths: Paths, steps: Sequence[Step], version: str, tag: str = ""
    ) -> dict[str, str]:
        """Commit steps, and return the commit of each by its name.

        A `tag` such as 'Patch: {}' ends each message with the name of the step.
        """
        with tempfile.TemporaryDirectory() as scratch:
            mails = [Path(scratch) / f"{number:04d}" for number in range(len(steps))]
            for mail, step in zip(mails, steps, strict=True):
                text = step.mail(paths.overlay, tag.format(step.name))
                mail.write_bytes(text.encode(errors="surrogateescape"))
            names = [step.name for step in steps]
            return dict(zip(names, self.apply(mails, names, version), strict=True))

    def changed_files(self, old: str, new: str) -> dict[str, str]:
        """Map each path that differs between revisions to its new mode and git's hash of it."""
        files = {}
        listing = self("diff", "--raw", "--no-renames", "--no-abbrev", old, new)
        for line in listing.splitlines():
            described, path = line.split("\t")
            _, mode, _, digest, status = described.split()
            if status == "D":
                raise HarnessError(f"the patches delete {path}: the harness cannot build that")
            files[path] = f"{mode} {digest}"
        return files


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

    def pick(self, steps: Sequence[Step], edit: Path | None = None) -> list[str]:
        """Commit a few steps alone on pristine Linux; return it and the commit of each.

        `edit` is a patch that belongs to no topic, on top of them.
        Merges as git cherry-pick does: what a step edits must not lie next to what another
        one changed that is left out.
        """
        self.git.checkout(self.base)
        revisions = [self.base]
        for step in steps:
            if self.git.run("cherry-pick", "--ff", self.commits[step.name])[0]:
                files = self.git("diff", "--name-only", "--diff-filter=U").split()
                others = {
                    other.topic: None
                    for other in topics.all_steps(self.topics)
                    if other not in steps and other.topic != step.topic and other.files & set(files)
                }
                self.git("cherry-pick", "--abort")
                raise HarnessError(
                    f"{step.name} does not apply without {' or '.join(others)} "
                    f"({', '.join(files)}): name it in kernel/patches/{step.topic}/needs or "
                    "keep the lines of the two apart"
                )
            revisions.append(self.git("rev-parse", "HEAD"))
        mails = [edit] if edit else []
        return revisions + self.git.apply(mails, [mail.name for mail in mails], self.source.version)

    def pick_topic(self, topic: Topic) -> list[str]:
        """Commit a topic on what it needs; return the commit below it, then its own."""
        before = topics.all_steps(other for other in self.topics if other.name in topic.needs)
        return self.pick([*before, *topic.steps])[len(before) :]

    def add(self, name: str, text: str) -> str:
        """Commit another text of a file on top of everything, alone; return the commit."""
        self.git.checkout(self.tip)
        topics.write_text(self.git.tree / name, text)
        self.git("commit", "-q", "-a", "-m", name)
        return self.git("rev-parse", "HEAD")

    def files(self, revision: str) -> dict[str, str]:
        """Map each path that differs from pristine Linux to its mode and git's hash of it."""
        return self.git.changed_files(self.base, revision)

    def options(self, revision: str) -> set[str]:
        """Return the Kconfig options that the files of the stack define at a revision."""
        _, text = self.git.run("grep", "-hE", r"^\s*(menu)?config ", revision, "--", "*Kconfig*")
        return {f"CONFIG_{name}" for name in _OPTION.findall(text)}


@contextmanager
def assemble(paths: Paths, source: Source, extra: Sequence[str] = ()) -> Iterator[Stack]:
    """Commit the whole stack in a scratch repository, which lasts as long as the context.

    `extra` names further files that Stack.add() may change.
    """
    parts = topics.read(paths)
    steps = topics.all_steps(parts)
    for name in (name for step in steps for name in step.overlay):
        if (source.pristine / name).exists():
            error = f"kernel/overlay/{name} exists in Linux {source.version} already"
            raise HarnessError(error)
    source.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=source.home, prefix="stack-") as scratch:
        tree = Path(scratch)
        git = Git(tree, steps)
        touched = set(extra).union(*(step.files for step in steps))
        for name in touched:
            if (source.pristine / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source.pristine / name, tree / name)
        git("init", "-q")
        if (attributes := source.pristine / ".gitattributes").exists():
            shutil.copy(attributes, tree / ".git/info/attributes")
        git("add", "-f", "--all")
        git("commit", "-q", "--allow-empty", "-m", f"Linux {source.version}")
        base = git("rev-parse", "HEAD")
        commits = git.apply_steps(paths, steps, source.version)
        yield Stack(git, source, parts, base, commits, git("rev-parse", "HEAD"))
