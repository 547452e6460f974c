"""Names in the project's files that mean something on one machine only."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.core import process
from harness.core.paths import Paths

# Hosts that a link in our files may point to.
_LINK_HOSTS = re.compile(r"^((docs|git|lore|www)\.kernel\.org|www\.linux-mm\.org)$")
_LINK = re.compile(r"\b(?:https?|ftp|git|ssh)://(?:[^\s/@]+@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
_MIRROR = re.compile(
    r"\b(?:[\w-]+\.)*(?:archive|cdn|deb|files|ftp\d*|index|mirrors?|proxy|pypi|registry|security"
    r"|snapshot)[\w-]*(?:\.[\w-]+)*\.(?:com|dev|io|net|org)\b",
    re.IGNORECASE,
)
_PLACEHOLDER_HOSTS = re.compile(r"(?:^|\.)(?:localhost|example(?:\.(?:com|net|org))?|invalid)$")
_HOME = re.compile(r"(?<![\w.$}])/(?:home|Users)/\w+|(?<![\w.$}])/(?:root|work)/\w")


def problems(name: str, text: str, forbidden: Mapping[str, str]) -> list[str]:
    """Return the hosts and paths in a file which mean something on one machine only.

    `forbidden` maps further strings that must not occur to what they are.
    """
    wrong = []
    patch = name.endswith(".patch")
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}:{number}"
        if patch and line.startswith((" ", "-")):
            continue  # the kernel's own lines
        for host in _LINK.findall(line):
            if not _LINK_HOSTS.search(host) and not _PLACEHOLDER_HOSTS.search(host):
                wrong.append(f"{where}: link to {host}")
        wrong += [f"{where}: host name {match[0]}" for match in _MIRROR.finditer(line)]
        wrong += [f"{where}: path {match[0]}..." for match in _HOME.finditer(line)]
        wrong += [f"{where}: {what} {word}" for word, what in forbidden.items() if word in line]
    return wrong


def check(root: Path, files: Mapping[str, str]) -> list[str]:
    """Check files, which are given with their text."""
    machine = {root: "the checkout's path", Path.home(): "a home directory"}
    forbidden = {f"{path}/": what for path, what in machine.items() if len(path.parts) > 2}
    return [problem for name, text in files.items() for problem in problems(name, text, forbidden)]


def is_shell(name: str, head: str) -> bool:
    """Tell whether a file is a shell script, by its name or its first line."""
    return name.endswith(".sh") or bool(
        re.match(r"#!\s*\S*(?:/|env )(?:ba|da|a)?sh\b|#!\s*\S*busybox", head)
    )


def project_files(paths: Paths) -> dict[str, str]:
    """Return the text of every file that is, or could be, committed, by name."""
    root = paths.root
    with tempfile.TemporaryDirectory() as empty:
        # Of another repository, which is empty: this may be no checkout.
        git = ["git", f"--git-dir={empty}", f"--work-tree={root}"]
        process.capture(["git", "init", "-q", "--bare", empty])
        listed = process.capture([*git, "ls-files", "-z", "-o", "--exclude-standard"], cwd=root)
    return {
        name: (root / name).read_text(errors="replace")
        for name in sorted(listed.split("\0"))
        if (root / name).is_file()
    }
