"""Debian's packages, through apt with lists and state of our own.

The host's own lists and sources stay as they are; apt checks signatures. A mirror's address
always comes from the host's apt.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths

# Of what the guest runs, that which no cross compiler makes.
PACKAGES = ("busybox-static", "e2fsprogs", "e2fsck-static")

_KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")


@dataclass(frozen=True)
class Mirror:
    """One repository that the host's apt already uses."""

    uri: str
    codename: str


def choose_mirrors(listing: str, codename: str) -> list[str]:
    """Return the addresses to try for backports, best first.

    `listing` has a line "<address> <codename>" for each index that apt knows. The
    mirror of the host's own release comes first; security archives carry no backports.
    """
    mirrors = [Mirror(*line.split()) for line in listing.splitlines() if len(line.split()) == 2]
    own = [m.uri for m in mirrors if m.codename == codename]
    related = [
        m.uri
        for m in mirrors
        if m.codename.startswith(f"{codename}-") and not m.codename.endswith("-security")
    ]
    return list(dict.fromkeys(own + related))


def codename() -> str:
    """Return the name of the host's release, or ''."""
    found = re.search(
        r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE
    )
    return found[1] if found else ""


def mirrors(step: ui.Step) -> list[str]:
    """Return the addresses of the mirrors that the host's apt uses, best first."""
    query = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)",
             "Created-By: Packages"]  # fmt: skip
    name = codename()
    found = choose_mirrors(process.capture(query), name)
    if not found:
        step.progress("apt has no package lists yet: apt-get update")
        update = ["apt-get", "-q", "update"]
        subprocess.run(
            update if os.geteuid() == 0 else ["sudo", *update],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        found = choose_mirrors(process.capture(query), name)
    if not found:
        raise HarnessError(f"apt knows no mirror of Debian {name or '(unknown)'}")
    return found


def _keyring() -> Path:
    for name in _KEYRINGS:
        path = Path("/usr/share/keyrings") / name
        if path.exists():
            return path
    raise HarnessError("no Debian archive keyring (package debian-archive-keyring)")


def _source(mirror: str, suite: str) -> str:
    return f"deb [signed-by={_keyring()}] {mirror} {suite} main"


def private_apt(directory: Path, mirror: str, suite: str) -> list[str]:
    """Return an apt-get that knows one suite of one mirror, with all it has in `directory`."""
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("lists/partial", "state", "cache/archives/partial"):
        (directory / name).mkdir(parents=True)
    sources = directory / "sources.list"
    sources.write_text(f"{_source(mirror, suite)}\n")
    options = [
        f"Dir::Etc::sourcelist={sources}",
        "Dir::Etc::sourceparts=-",
        f"Dir::State={directory}/state",
        f"Dir::State::lists={directory}/lists",
        f"Dir::Cache={directory}/cache",
        "Acquire::Languages=none",
        "Acquire::Retries=3",
        # root hands downloads to a user who may not reach the cache
        *(["APT::Sandbox::User=root"] if os.geteuid() == 0 else []),
    ]
    command = ["apt-get", "-q"]
    for option in options:
        command += ["-o", option]
    return command


def from_any_mirror(fetch: Callable[[str], Path], step: ui.Step, what: str) -> Path:
    """Return what `fetch` makes of the first mirror that has it."""
    errors: list[str] = []
    for number, mirror in enumerate(mirrors(step)):
        try:
            return fetch(mirror)
        except HarnessError as error:
            errors.append(f"mirror {number + 1}: {error}")
    raise HarnessError(f"cannot fetch {what}", "\n".join(errors))


def userland(paths: Paths, architecture: str) -> Path:
    """Return a directory with PACKAGES and all that they depend on, for an architecture.

    They are those of the host's release, unpacked and not configured: programs to copy, and
    libraries for them.
    """
    key = hashlib.sha256("\0".join([codename(), *PACKAGES]).encode()).hexdigest()[:12]
    home = paths.cache / f"userland-{architecture}-{key}"
    with ui.step(f"packages for {architecture}") as step:
        if home.exists():
            step.reused(f"in {home}")
            return home

        def fetch(mirror: str) -> Path:
            fresh = home.with_name(f"{home.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            # "chrootless" needs no privileges, and nothing that is unpacked runs
            process.run_logged(
                ["mmdebstrap", "--mode=chrootless", "--variant=extract",
                 f"--architectures={architecture}", f"--include={','.join(PACKAGES)}",
                 codename(), str(fresh), _source(mirror, codename())],
                paths.logs / f"mmdebstrap-{architecture}.log",
                "mmdebstrap",
            )  # fmt: skip
            return fresh.rename(home)

        from_any_mirror(fetch, step, f"{', '.join(PACKAGES)} for {architecture}")
        step.done(f"in {home}")
    return home
