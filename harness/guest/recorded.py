"""Recorded output of guests of vanilla kernels: lab/recorded/vanilla.json.xz.

Such a guest has one processor, and runs in virtual time: it prints the same on every machine
as long as its key is the same. A key names the kernel, the compiler, QEMU, and the programs,
the suite and the words that the guest got. It leaves out on purpose: comments, our patches of
QEMU, and what else is in the initramfs. `make check-all` boots the guests again and compares.
"""

import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, json

from harness.core import jsonio, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.guest import suite
from harness.kernel import build, qemu, source, topics

FILE = "lab/recorded/vanilla.json.xz"
OUTSIDE = ("Linux", "compiler", "QEMU")
"""Parts of a key that no file of this repository decides."""

_CHANGED = re.compile(r"^[+-](?!\+\+ |-- )")
_C_COMMENT = re.compile(r"/\*.*?\*/|//.*?$", re.MULTILINE | re.DOTALL)
_SHELL_COMMENT = re.compile(r"^#(?! qemu:).*\n", re.MULTILINE)  # settings are part of the guest


@dataclass(frozen=True)
class Guest:
    """One boot of a vanilla kernel; `programs` matches the kernel's files that it runs.

    `words` are arguments, files and options that the guest gets besides the suite's own.
    """

    name: str
    config: str
    suite: str
    programs: str
    words: tuple[str, ...]


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """The output of a guest, and its key."""

    key: dict[str, str]
    text: str


Record = dict[str, Entry]
"""Entries by the name of their guests."""


def keys(paths: Paths, guests: Sequence[Guest]) -> dict[str, dict[str, str]]:
    """Return the key of each guest by its name; QEMU must be built."""
    origin = source.get(paths)
    own = f"{origin.home.name} {origin.revision}"  # of a tree or tarball of the user's
    outside = (origin.package or own, build.compiler(), qemu.version(paths))
    steps = topics.all_steps(topics.read(paths))

    def key(guest: Guest) -> dict[str, str]:
        patches = topics.select(steps, build.CONFIGS[guest.config].only or ())
        changes = [
            line for step in patches for line in step.text.splitlines() if _CHANGED.match(line)
        ]
        brought = [name for step in patches for name in step.overlay]
        files = topics.overlay_files(paths)
        programs = [name for name in files if re.search(guest.programs, name)]
        if not programs:
            raise HarnessError(f"{guest.name}: no file in kernel/overlay is its program")

        def contents(names: Sequence[str]) -> list[str]:
            texts = (topics.read_text(paths.overlay / name) for name in names)
            return [ascii(_C_COMMENT.sub("", text).split()) for text in texts]

        script = (paths.guest / "suites" / guest.suite).read_text()

        quiet = suite.quiet_settings(paths, guest.suite, cpus=1)
        inside = {
            "configuration": [build.fragments(paths, guest.config)],
            "patches": [*map(ascii, changes), *contents(brought)],
            "suite": [_SHELL_COMMENT.sub("", script)],
            "programs": contents(programs),
            "words": [*guest.words, suite.command_line(guest.config, guest.suite, "", quiet)],
        }
        digests = {name: jsonio.digest(*parts)[:12] for name, parts in inside.items()}
        return dict(zip(OUTSIDE, outside, strict=True)) | digests

    return {guest.name: key(guest) for guest in guests}


def load(paths: Paths) -> Record:
    """Return the record, which is empty if there is none."""
    path = paths.root / FILE
    if not path.exists():
        return {}
    try:
        return jsonio.decode(Record, lzma.decompress(path.read_bytes()), FILE)
    except (lzma.LZMAError, EOFError) as error:
        raise HarnessError(f"{FILE}: {error}") from error


def write(paths: Paths, record: Record) -> None:
    """Replace the record."""
    packed = lzma.compress(json.encode(record), preset=9 | lzma.PRESET_EXTREME)
    (paths.root / FILE).write_bytes(packed)


def unlike(entry: Entry | None, key: Mapping[str, str]) -> dict[str, str]:
    """Return how a recorded guest is another one than that with a key, in words by part."""
    if entry is None:
        return {"guest": "there is no record"}
    names = dict.fromkeys((*entry.key, *key))
    return {
        name: f"the record is of {name} {entry.key.get(name)}, here is {key.get(name)}"
        for name in names
        if entry.key.get(name) != key.get(name)
    }


def known(paths: Paths, guests: Sequence[Guest]) -> dict[str, str]:
    """Return what guests print, by name, as far as their keys are those of the record.

    All guests of a kernel, or none: one that is not known needs the kernel anyway. Says why
    a kernel is needed.
    """
    record = load(paths)
    needed: dict[str, str] = {}
    for name, key in keys(paths, guests).items():
        if why := unlike(record.get(name), key):
            config = next(guest.config for guest in guests if guest.name == name)
            needed.setdefault(config, f"{name}: {next(iter(why.values()))}")
    for config, why_not in needed.items():
        ui.say(f"vanilla is not the recorded one, building {config}: {why_not}")
    return {guest.name: record[guest.name].text for guest in guests if guest.config not in needed}
