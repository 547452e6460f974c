"""kernel/patches and kernel/overlay as topics, checked as far as that goes without a kernel.

kernel/patches/topics names the topics in the order of the stack. Each has a directory with
`series` (one line a step: a patch, then the overlay files and directories that it brings),
`cover-letter.txt`, `tests` (suites of the guest, a line each, that prove the topic alone)
and, where other topics go first, `needs`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.paths import Paths

COVER_LETTER = "cover-letter.txt"


@dataclass(frozen=True)
class Step:
    """One commit: a patch of existing files, and the overlay files that come with it."""

    topic: str
    patch: str
    text: str
    overlay: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step in messages and in PATCH=."""
        return f"{self.topic}/{self.patch}"

    @property
    def files(self) -> set[str]:
        """The files that it changes or brings."""
        return {*touched_paths(self.text), *self.overlay}

    def mail(self, overlay: Path, tag: str = "") -> str:
        """Return the whole step as one mail for git am; `tag` ends its message."""
        text = self.text
        if tag:
            message, *rest = re.split(r"^(---$|diff --git )", text, maxsplit=1, flags=re.M)
            text = f"{message.rstrip()}\n\n{tag}\n{''.join(rest)}"
        return text + "".join(_new_file(name, overlay / name) for name in self.overlay)


@dataclass(frozen=True)
class SuiteCall:
    """A suite of the guest with its arguments, on `machine` if it is not ''."""

    suite: str
    arguments: tuple[str, ...] = ()
    machine: str = ""

    def __str__(self) -> str:
        """Return it as one writes it in `tests`."""
        machine = (f"machine={self.machine}",) if self.machine else ()
        return " ".join((self.suite, *self.arguments, *machine))


@dataclass(frozen=True)
class Topic:
    """A part of the stack that is mailed by itself; `needs` holds all that go before it.

    `tests` run on a kernel of the topic and its needs alone.
    """

    name: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...]
    cover: str
    tests: tuple[SuiteCall, ...] = ()


def read_text(path: Path) -> str:
    """Read a file of the kernel, which need not be UTF-8."""
    return path.read_bytes().decode(errors="surrogateescape")


def write_text(path: Path, text: str) -> None:
    """Write what read_text() has read, or a change of it."""
    path.write_bytes(text.encode(errors="surrogateescape"))


def _new_file(name: str, path: Path) -> str:
    mode = "100755" if path.stat().st_mode & 0o100 else "100644"
    head = f"diff --git a/{name} b/{name}\nnew file mode {mode}\n"
    lines = read_text(path).split("\n")
    if lines == [""]:
        return head + "index 000000000000..e69de29bb2d1\n"
    last = lines.pop()
    hunk = [f"@@ -0,0 +1,{len(lines) + bool(last)} @@", *(f"+{line}" for line in lines)]
    hunk += [f"+{last}", "\\ No newline at end of file"] if last else []
    return f"{head}--- /dev/null\n+++ b/{name}\n" + "\n".join(hunk) + "\n"


def touched_paths(patch: str) -> list[str]:
    """Return the paths that a patch edits, in its order."""
    paths = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch, re.MULTILINE)
    return list(dict.fromkeys(paths))


def lines_of(path: Path) -> list[list[str]]:
    """Return the words of each line, without comments; nothing if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [words for line in lines if (words := line.split("#", 1)[0].split())]


def overlay_files(paths: Paths) -> list[str]:
    """Return the paths of all overlay files within the kernel tree."""
    return sorted(
        str(path.relative_to(paths.overlay))
        for path in paths.overlay.rglob("*")
        if not path.is_dir() and "__pycache__" not in path.parts
    )


def read(paths: Paths, *, whole: bool = True) -> tuple[Topic, ...]:
    """Read the topics in stack order; HarnessError if anything contradicts itself.

    Unless `whole`, series and overlay may name different files: `make save` is about to add or
    remove them.
    """
    files = overlay_files(paths)
    if links := [file for file in files if (paths.overlay / file).is_symlink()]:
        raise HarnessError(f"kernel/overlay/{links[0]} is a symbolic link")
    owners: dict[str, str] = {}
    topics: dict[str, Topic] = {}
    names = [words[0] for words in lines_of(paths.patches / "topics")]
    _compare("kernel/patches/topics", names, [path.name for path in paths.patches.glob("*/")])
    for name in names:
        home = paths.patches / name
        where = f"kernel/patches/{name}"
        entries = lines_of(home / "series")
        patches = sorted(path.name for path in home.glob("*.patch"))
        _compare(f"{where}/series", [entry[0] for entry in entries], patches)
        if [entry[0] for entry in entries] != patches:
            raise HarnessError(f"{where}/series is not in the order of the patches' numbers")
        steps = []
        for patch, *adds in entries:
            mine = [file for file in files if covers(adds, file)]
            step = Step(name, patch, read_text(home / patch), tuple(mine))
            if whole:
                _claim(step, adds, owners)
            steps.append(step)
        needs = {words[0] for words in lines_of(home / "needs")}
        if unknown := needs - topics.keys():
            raise HarnessError(f"{where}/needs: no topic {min(unknown)} before {name}")
        needs.update(*(topics[need].needs for need in needs))
        cover = home / COVER_LETTER
        if not cover.is_file():
            raise HarnessError(f"{where}/{COVER_LETTER} is missing")
        in_order = tuple(topic for topic in topics if topic in needs)
        tests = _read_tests(home / "tests")
        topics[name] = Topic(name, tuple(steps), in_order, cover.read_text(), tests)
    if whole and (homeless := [file for file in files if file not in owners]):
        raise HarnessError(
            f"kernel/overlay/{homeless[0]} belongs to no patch: name it behind the patch that "
            "brings it, in kernel/patches/<topic>/series",
            "\n".join(homeless[1:]),
        )
    return tuple(topics.values())


def _read_tests(path: Path) -> tuple[SuiteCall, ...]:
    """Read the tests of a topic; a topic without tests has to say why, in a comment."""
    if not path.is_file() or not path.read_text().strip():
        raise HarnessError(
            f"kernel/patches/{path.parent.name}/tests is missing: name suites of the guest "
            "that test the series with only its needs, or say in a comment why there is none"
        )
    calls = []
    for suite, *words in lines_of(path):
        machine = words.pop()[8:] if words and words[-1].startswith("machine=") else ""
        calls.append(SuiteCall(suite, tuple(words), machine))
    return tuple(calls)


def _compare(what: str, named: Sequence[str], present: Sequence[str]) -> None:
    """Refuse a list that does not name each thing that is there, and once."""
    if missing := set(named) - set(present):
        raise HarnessError(f"{what} names {min(missing)}, which does not exist")
    if forgotten := set(present) - set(named):
        raise HarnessError(f"{what} does not name {min(forgotten)}")
    if twice := [name for name in named if named.count(name) > 1]:
        raise HarnessError(f"{what} names {twice[0]} twice")


def _claim(step: Step, adds: Iterable[str], owners: dict[str, str]) -> None:
    """Note whose the overlay files of a step are; refuse those of another, and what is none."""
    for name in adds:
        if not any(covers([name], file) for file in step.overlay):
            raise HarnessError(f"{step.name}: {name} is not in kernel/overlay")
    for file in step.overlay:
        if file in owners:
            raise HarnessError(f"{step.name}: {file} belongs to {owners[file]} already")
        owners[file] = step.name


def covers(adds: Iterable[str], file: str) -> bool:
    """Tell whether a line of `series` brings a file, by its name or by a directory's."""
    return any(f"{file}/".startswith(f"{name.rstrip('/')}/") for name in adds)


def all_steps(topics: Iterable[Topic]) -> list[Step]:
    """Return the steps of the whole stack."""
    return [step for topic in topics for step in topic.steps]


def select(steps: Sequence[Step], only: Sequence[str]) -> list[Step]:
    """Return the steps that `only` names, each by a part of its name, or with its series."""
    series = {step.topic for step in steps}
    wanted = {find(steps, text).name for text in only if text not in series}
    return [step for step in steps if step.topic in only or step.name in wanted]


def find(steps: Sequence[Step], text: str) -> Step:
    """Return the one step whose name contains `text`, or is it."""
    matches = [step for step in steps if step.name == text] or [
        step for step in steps if text in step.name
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise HarnessError(f"no patch is called '{text}': see kernel/patches/*/series")
    names = ", ".join(step.name.removesuffix(".patch") for step in matches[:6])
    more = ", ..." if len(matches) > 6 else ""
    raise HarnessError(f"PATCH={text} may be any of {len(matches)}: {names}{more}")
