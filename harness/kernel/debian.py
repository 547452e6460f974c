"""Debian's packages, through apt with lists and state of our own.

The host's own lists and sources stay as they are; apt checks signatures. A mirror's address
always comes from the host's apt.
"""

import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from harness.core import jsonio, lock, process, store, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

# Of what the guest runs, that which no cross compiler makes.
PACKAGES = ("busybox-static", "e2fsprogs", "e2fsck-static")

RELEASE = "bookworm"
"""Whose compiler, binary utilities and libraries all x86 guests are made of, so that figures
are equal on every host."""

_ROMS = ("seabios", "qemu-system-data")
_COMPILER = ("gcc-12", "libc6-dev", "libnuma-dev", "libcap-dev", "liburing-dev")
_TOOLS = ("gcc-12", "x86_64-linux-gnu-*")
# The C library is in /lib: these programs run with the host's, and nothing else is.
_TOOL = """#!/bin/sh
PATH={root}/usr/bin:$PATH LD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu \\
	exec {root}/usr/bin/{name}{options} "$@"
"""


def choose_mirrors(listing: str, codename: str) -> list[str]:
    """Return the addresses to try for backports, best first.

    `listing` has a line "<address> <codename>" for each index that apt knows. The
    mirror of the host's own release comes first; security archives carry no backports.
    """
    known = [words for line in listing.splitlines() if len(words := line.split()) == 2]
    own = [uri for uri, name in known if name == codename]
    related = [uri for uri, name in known if re.match(rf"{codename}-(?!.*security$)", name)]
    return list(dict.fromkeys(own + related))


def codename() -> str:
    """Return the name of the host's release, or ''."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def mirrors(step: ui.Step) -> list[str]:
    """Return the addresses of the mirrors that the host's apt uses, best first."""
    query = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)",
             "Created-By: Packages"]  # fmt: skip
    name = codename()
    if chosen := choose_mirrors(process.capture(query), name):
        return chosen
    step.progress("apt has no package lists yet: apt-get update")
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    process.attempt([*sudo, "apt-get", "-q", "update"], Path("/"))
    if chosen := choose_mirrors(process.capture(query), name):
        return chosen
    raise HarnessError(f"apt knows no mirror of Debian {name or '(unknown)'}")


def source_line(kind: str, mirror: str, suite: str) -> str:
    """Return a line of sources.list: 'deb' is for packages, 'deb-src' for sources."""
    for suffix in ("gpg", "pgp"):
        keyring = Path(f"/usr/share/keyrings/debian-archive-keyring.{suffix}")
        if keyring.exists():
            return f"{kind} [signed-by={keyring}] {mirror} {suite} main"
    raise HarnessError("no Debian archive keyring (package debian-archive-keyring)")


def private_apt(directory: Path, line: str) -> list[str]:
    """Return an apt-get that knows one line of sources.list, with all it has in `directory`."""
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("lists/partial", "state", "cache/archives/partial"):
        (directory / name).mkdir(parents=True)
    sources = directory / "sources.list"
    sources.write_text(f"{line}\n")
    options = [
        f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-",
        f"Dir::State={directory}/state", f"Dir::State::lists={directory}/lists",
        f"Dir::Cache={directory}/cache", "Acquire::Languages=none", "Acquire::Retries=3",
        "APT::Status-Fd=1",
        # root hands downloads to a user who may not reach the cache
        *(["APT::Sandbox::User=root"] if os.geteuid() == 0 else []),
    ]  # fmt: skip
    return ["apt-get", "-q", *(word for option in options for word in ("-o", option))]


def newest(directory: Path, file: str) -> Path | None:
    """Return the file of the highest version that a pattern names, if there is one."""
    return max(
        directory.glob(file),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)],
        default=None,
    )


def download(
    paths: Paths, package: str, suite: str, file: str, step: ui.Step, *, source: bool = False
) -> Path:
    """Return a package's file, fetched by apt once for all clones.

    `package` is the name of a package of a suite, or with `source` of a source package; `file`
    is a pattern of the one file of it that is wanted. HarnessError if no mirror has it.
    """

    def watch(line: str) -> None:
        if line.startswith("dlstatus:"):
            percent, words = line.split(":", 3)[2:]
            step.progress(f"{package}: {float(percent):.0f} %, {words}")

    def fetch(fresh: Path, mirror: str) -> None:
        line = source_line("deb-src" if source else "deb", mirror, suite)
        apt = private_apt(paths.cache / "apt", line)
        log = paths.logs / "apt-update.log"
        process.run_logged([*apt, "update"], log, "apt-get update", on_line=watch)
        store.empty(fresh)
        words = ("source", "--download-only") if source else ("download",)
        log = paths.logs / "apt-download.log"
        process.run_logged([*apt, *words, package], log, "apt-get", cwd=fresh, on_line=watch)
        if not newest(fresh, file):
            raise HarnessError(f"{package} has no file {file}")

    def fill(fresh: Path) -> None:
        from_any_mirror(partial(fetch, fresh), step, f"{package} from {suite}")

    key = jsonio.digest(package, suite, file)[:12]
    path = newest(store.get(paths, f"download-{package}-{key}", fill), file)
    assert path
    return path


def from_any_mirror(run: Callable[[str], None], step: ui.Step, what: str) -> None:
    """Run something with one mirror after the other, until it works."""
    errors: list[str] = []
    for number, mirror in enumerate(mirrors(step), 1):
        try:
            return run(mirror)
        except HarnessError as error:
            errors.append(f"mirror {number}: {error}")
    raise HarnessError(f"cannot fetch {what}", "\n".join(errors))


def userland(
    paths: Paths, architecture: str, packages: Sequence[str] = PACKAGES, release: str = ""
) -> Path:
    """Return a directory with packages and all that they depend on, for an architecture.

    They are those of a release, the host's own if none is named, unpacked and not configured:
    programs to copy, and libraries for them.
    """
    release = release or codename()
    name = f"userland-{architecture}-{jsonio.digest(release, *packages)[:12]}"

    def extract(root: Path, mirror: str) -> None:
        shutil.rmtree(root, ignore_errors=True)
        # "chrootless" needs no privileges, and nothing that is unpacked runs: root is safe, too
        process.run_logged(
            ["mmdebstrap", "--mode=chrootless", "--skip=check/chrootless", "--variant=extract",
             f"--architectures={architecture}", f"--include={','.join(packages)}",
             release, str(root), source_line("deb", mirror, release)],
            paths.logs / f"mmdebstrap-{architecture}.log",
            "mmdebstrap",
        )  # fmt: skip

    def fill(fresh: Path) -> None:
        root = fresh / "root"
        what = f"{', '.join(packages)} for {architecture}"
        from_any_mirror(partial(extract, root), step, what)
        for link in root.rglob("*.so*"):
            if link.is_symlink() and (target := str(link.readlink())).startswith("/"):
                link.unlink()  # it names a library of the host
                link.symlink_to(os.path.relpath(f"{root}{target}", link.parent))

    with ui.step(f"packages for {architecture}") as step:
        known = store.find(paths, name)
        root = (known or store.get(paths, name, fill)) / "root"
        step.done(f"in {root}", reused=bool(known))
    return root


def home(paths: Paths) -> Path:
    """Return the root of RELEASE's tree: the host's own, or packages in the cache."""
    if codename() == RELEASE:
        return Path("/")
    with lock.cache(paths):
        return userland(paths, "amd64", (*_COMPILER, *_ROMS, *PACKAGES), RELEASE)


def pin(paths: Paths) -> None:
    """Let what this process starts find RELEASE's compiler and binary utilities first."""
    if codename() == RELEASE:
        return
    with lock.cache(paths):
        root = home(paths)
        tools = paths.cache / "tools"
        tools.mkdir(exist_ok=True)
        for tool in (path for names in _TOOLS for path in (root / "usr/bin").glob(names)):
            options = f" --sysroot={root}" if tool.name.endswith("gcc-12") else ""
            script = tools / tool.name
            script.write_text(_TOOL.format(root=root, name=tool.name, options=options))
            script.chmod(0o755)
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
