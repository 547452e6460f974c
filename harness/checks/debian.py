"""`make check-debian`: a Debian 13 machine gets our packages, uses them, and loses them again.

`make image-check`: the image boots by QEMU's loader, by firmware from a stick, and by kexec.

The root file system has what Debian's important packages are, Debian's own kernel, a compiler,
numactl and trace-cmd. It is on the disk of a machine with ptdma engines. What stands in for the
boot loader is QEMU, which gets the newest kernel of /boot and its initramfs: they are read from
the disk before each boot.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.checks import stages
from harness.checks.main import suite_cases
from harness.checks.stages import Stage
from harness.core import jsonio, process, space, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.deb import packages
from harness.deb.packages import Packages
from harness.guest import suite, vm
from harness.guest.ktap import Case
from harness.kernel import arch, build, debian, kconfig, qemu

CONFIG = "systemd"
DOCUMENT = "docs/debian.md"
SUITE = packages.DISTRIBUTION
PARTS = ("install", "doctor", "use", "remove", "back")
"""Parts of guest/debian/lane, between which the machine reboots."""

_INCLUDE = ("linux-image-amd64", "initramfs-tools", "zstd", "numactl", "trace-cmd", "gcc", "make")
# The first boot asks nothing, and the disk is the root file system.
_HOOKS = (
    'chroot "$1" systemd-machine-id-setup',
    'echo debian >"$1/etc/hostname"',
    'echo "/dev/sda / ext4 defaults 0 1" >"$1/etc/fstab"',
)
_DISK_MIB = 4096
_DISK_GB = 2.0  # twice: most of it is a hole
_FEATURES = "extents,uninit_bg,dir_index,has_journal"  # what genext2fs does not make

_RAW = "format=raw,if=ide,cache=unsafe"
# The check of the file system is slow under emulation.
_COMMAND_LINE = "root=/dev/sda rw console=ttyS0 panic=-1 no_timer_check fsck.mode=skip"
_SECONDS = 900
_SILENT = 400
# Debian's kernel has loaded the first ones in the guest, and 4,000 others are modules of it.
_LOADED = ("EXT4_FS", "BLK_DEV_SD", "SATA_AHCI")
_MODULES = 100
_OURS = ("mm/", "drivers/dma/", "drivers/migrate_offload/")
_PROMPT = "root@debian:~# "
_TRANSCRIPT = "transcript.txt"

ANSWERS = {
    "cat /proc/partitions": r"Kernel command line: console=ttyS0.*name\n\n\nThis Linux",
    "1 --quiet --size=4 --iterations=4": "^Use dcbm on ptdma.*--engine idxd",
    "migrate-offload enable --engine=ptdma bulk": "^Copy offload is on",
    "migrate-offload status": "^Engine ptdma, 16 channels",
    "redis-server -v": "^Redis server",
    "2 --rounds=1 --mib=4 --force": '^{"program": "migrate_offload_report".*"per_s": [1-9]',
    "4": "reboot: Restarting system",
}
"""Lines for the menu of the image, and a pattern of the console's words for each."""

WAYS = {"kernel": "Linux version", "firmware": "efi: EFI v", "kexec": "Starting new kernel"}
"""Words that the console has if the image boots in a way."""


def bare_debian(paths: Paths, disk: Path) -> None:
    """Make a disk that has a bare Debian 13: a copy of an image, which is made once."""
    words = (SUITE, *_INCLUDE, *_HOOKS, _FEATURES, str(_DISK_MIB))
    image = paths.cache / f"debian13-{jsonio.digest(*words)[:12]}.ext4"
    fresh = image.with_suffix(".ext2")
    with ui.step("root file system") as step:

        def extract(mirror: str) -> None:
            fresh.unlink(missing_ok=True)
            hooks = [f"--customize-hook={hook}" for hook in _HOOKS]
            line = debian.source_line("deb", mirror, SUITE)
            options = ["--variant=important", f"--include={','.join(_INCLUDE)}", *hooks]
            command = ["mmdebstrap", *options, SUITE, str(fresh), line]
            log = paths.logs / "mmdebstrap-debian13.log"
            process.run_logged(command, log, "mmdebstrap", on_line=step.progress)

        reused = image.exists()
        if not reused:
            space.need(image, _DISK_GB, "a Debian 13 machine")
            debian.from_any_mirror(extract, step, f"Debian {SUITE}")
            log = paths.logs / "debian13.log"
            process.run_logged(["tune2fs", "-O", _FEATURES, str(fresh)], log, "tune2fs")
            # status 1: it has repaired what the new features want
            status, output = process.attempt(["e2fsck", "-fyD", str(fresh)], paths.cache)
            if status > 1:
                raise HarnessError(f"e2fsck ended with status {status}", process.tail(output))
            process.run_logged(["resize2fs", str(fresh), f"{_DISK_MIB}M"], log, "resize2fs")
            fresh.rename(image)
        process.capture(["cp", "--sparse=always", "--reflink=auto", str(image), str(disk)])
        step.done(f"Debian {SUITE} in {image}", reused=reused)


def write_files(image: Path, commands: Sequence[str]) -> None:
    """Run commands of debugfs on a file system in a file; one that fails is an error."""
    script = image.with_suffix(".debugfs")
    script.write_text("".join(f"{command}\n" for command in commands))
    _, output = process.attempt(["debugfs", "-w", "-f", str(script), str(image)], image.parent)
    # debugfs exits with 0 whatever happens, and repeats each command
    wrong = re.search(r"^(?!debugfs[: ]|Allocated inode: ).+$", output, re.MULTILINE)
    if wrong:
        raise HarnessError(f"debugfs: {wrong[0]}")


def machine(paths: Paths, disk: Path, directory: Path, words: str, **more: Any) -> vm.Guest:
    """Return a guest that boots what GRUB would boot from a disk, whose /boot is copied."""
    directory.mkdir(parents=True, exist_ok=True)
    process.capture(["debugfs", "-R", f"rdump /boot {directory}", str(disk)])
    kernel = debian.newest(directory / "boot", "vmlinuz-*")
    if not kernel:
        raise HarnessError(f"{disk} has no kernel in /boot")
    initrd = kernel.with_name(kernel.name.replace("vmlinuz", "initrd.img"))
    options = f"{_COMMAND_LINE} {words}"
    return vm.Guest(kernel, initrd, options, memory_mib=2048, qemu=qemu.programs(paths), **more)


def prepare(paths: Paths, out: Path, made: Packages) -> Path:
    """Return the fresh disk of a machine, on which packages, and later ones, are root's files."""
    disk, later = out / "disk.ext4", packages.get(paths, CONFIG, out / "later")
    bare_debian(paths, disk)
    (out / "release").write_text(f"{made.release}\n")
    unit = "lane.service"
    write_files(disk, [
        "mkdir /lane", "cd /lane", f"write {out}/release release",
        f"write {paths.guest}/lib.sh lib.sh", f"write {paths.guest}/debian/lane lane",
        "sif lane mode 0100755",
        "cd /etc/systemd/system", f"write {paths.guest}/debian/{unit} {unit}",
        "cd multi-user.target.wants", f"symlink {unit} ../{unit}",
        *(line for directory in (made.files[0].parent, later.files[0].parent)
          for line in (f"mkdir /srv/{directory.name}", f"cd /srv/{directory.name}",
                       *(f"write {path} {path.name}" for path in directory.iterdir()))),
    ])  # fmt: skip
    return disk


def boot(paths: Paths, part: str, disk: Path, directory: Path) -> list[Case]:
    """Boot the newest kernel on the disk; let the machine do its part, and keep the transcript."""
    options = (*arch.PTDMA.options, "-drive", f"file={disk},{_RAW}")
    guest = machine(paths, disk, directory, f"lane={part}", timeout=_SECONDS, silent=_SILENT,
                    machine=replace(arch.PTDMA, options=options))  # fmt: skip
    result = suite.watch(guest, directory, f"{part} ({guest.kernel.name})")
    if result.failure:
        suite.show_failure(result, directory)
    with disk.with_name(_TRANSCRIPT).open("a") as stream:
        stream.write(f"{transcript(result.run.results)}\n")
    return suite_cases(result)


def transcript(results: str) -> str:
    """Return what the user typed and saw, from the results of a part."""
    step = rf"^# {_PROMPT}.*\n(?:# (?!\w+: \d+ s$).*\n)*"
    steps = re.findall(step, results, re.MULTILINE)
    return "\n".join(re.sub("^# | +$", "", step, flags=re.MULTILINE) for step in steps)


def typed(text: str, indent: str = "") -> list[list[str]]:
    """Return each command that a text shows, and the lines that it prints, without numbers."""
    steps: list[list[str]] = []
    for line in text.splitlines():
        words = re.sub(r"\d[\d.]*", "N", " ".join(line.split()))
        if line.startswith(indent + _PROMPT):
            steps.append([words])
        elif steps and line.startswith(indent) and words not in ("", "..."):
            steps[-1].append(words)
    return steps


def _shown(line: str) -> Callable[[str], object]:
    """Return what tells whether a line is this one; `...` stands for any part of it."""
    return re.compile(".*".join(map(re.escape, line.split("...")))).fullmatch


def documented(paths: Paths, seen: Path) -> list[Case]:
    """Compare docs/debian.md, which may leave lines out, with what was typed and seen."""
    shown, real = typed((paths.root / DOCUMENT).read_text(), " " * 4), typed(seen.read_text())
    apart = [f"{step} instead of {then}" for step, then in zip_longest(shown, real, fillvalue=[""])
             if step[0] != then[0]
             or not all(any(map(_shown(line), then)) for line in step)]  # fmt: skip
    return [Case.judged(DOCUMENT, bool(real) and not apart, "\n".join(apart))]


def lintian(paths: Paths, made: Packages) -> list[Case]:
    """Let lintian judge the package of the tools; that of the kernel is bindeb-pkg's."""
    words = ["lintian", "--fail-on=error,warning", "--allow-root", str(made.files[-1])]
    status, output = process.attempt(words, paths.root)
    return [Case.judged(packages.TOOLS, not status and not output.strip(), output)]


def distribution(paths: Paths, disk: Path) -> list[Case]:
    """Cut Debian's configuration down to what Debian's kernel had loaded on the machine.

    Of that kernel, which takes hours to build, only the directories are compiled that are ours.
    """
    modules = disk.with_name("lsmod")
    modules.write_text(process.capture(["debugfs", "-R", "cat /lane/lsmod", str(disk)]))
    tree = build.tree(paths, "debian")
    final = build.configure(paths, tree, "debian", {"LSMOD": str(modules)}) / ".config"
    options = kconfig.parse(final.read_text())
    lost = [name for name in _LOADED if options.get(f"CONFIG_{name}", "n") == "n"]
    number = sum(value == "m" for value in options.values())
    with ui.step("our files in Debian's configuration") as step:
        for directory in _OURS:  # gcc says only once what it thinks of a file
            for path in (final.parent / directory).rglob("*.o"):
                path.unlink()
        output = build.run(paths, tree, "debian", "prepare", *_OURS, on_line=step.progress)
        warnings = [line for line in output.splitlines() if "warning:" in line]
        step.done(f"{len(warnings)} warnings")
    return [
        Case.judged("loaded modules are kept", not lost, f"lost: {', '.join(lost)}"),
        Case.judged("others are not", number <= _MODULES, f"{number} modules"),
        Case.judged("our files compile without a warning", not warnings, "\n".join(warnings)),
    ]


def main(paths: Paths) -> int:
    """Run everything; the last line counts it."""
    out = paths.out / "check-debian"
    return stages.run(out, [
        Stage("qemu", lambda *_: qemu.get(paths)),
        Stage("packages", lambda *_: packages.get(paths, CONFIG, out / "apt")),
        Stage("lintian", lambda made, _: lintian(paths, made), "packages"),
        Stage("machine", lambda made, _: prepare(paths, out, made), "packages"),
        *(Stage(name, partial(boot, paths, name), "machine") for name in PARTS),
        Stage("docs", lambda *_: documented(paths, out / _TRANSCRIPT)),
        Stage("debian", lambda disk, _: distribution(paths, disk), "machine"),
    ])  # fmt: skip


def answer(way: str, made: Mapping[str, Sequence[str]], directory: Path) -> list[Case]:
    """Answer the menu of a machine until the machine ends, and judge what it printed."""
    log, title, lines = directory / "console.log", f"image by {way}", list(ANSWERS)
    reader, writer = os.pipe()

    def see(line: str) -> None:
        step.progress(line)
        if lines and "4 reboot" in line:
            keyboard.write(f"{lines.pop(0)}\n")
        if "end Kernel panic" in line:
            raise HarnessError(f"{title}: {line} (log: {log})")

    command = ["timeout", "--verbose", "3600", *made[way]]
    with os.fdopen(reader), os.fdopen(writer, "w", buffering=1) as keyboard, ui.step(title) as step:
        printed = process.run_logged(command, log, title, on_line=see, stdin=reader)
        step.done(f"ended, see {log}")
    # Linux 7.3 leaves an early mapping behind where kexec boots it on a machine with EFI.
    wrong = vm.complaint(re.sub(".*early_ioremap.*", "", printed))
    return [
        Case.judged("is healthy", not wrong, wrong),
        *(Case.judged(name, re.search(seen, printed, re.M | re.S), f"no {seen} in {log}")
          for name, seen in {"boots": WAYS[way], **ANSWERS}.items()),
    ]  # fmt: skip


def machines(paths: Paths, out: Path) -> dict[str, list[str]]:
    """Return the commands that boot the image, by the way."""
    packages.main_image(paths)
    made, stick, disk = paths.out / packages.IMAGE, out / "stick.fat", out / "debian.ext4"
    process.capture(["mformat", "-C", "-T", "262144", "-i", str(stick), "::"])
    process.capture(["mmd", "-i", str(stick), "::EFI", "::EFI/BOOT"])
    process.capture(["mcopy", "-i", str(stick), str(made), "::EFI/BOOT/BOOTX64.EFI"])
    bare_debian(paths, disk)
    script = paths.guest / "debian/kexec"
    write_files(disk, [f"write {made} image", f"write {script} kexec", "sif kexec mode 0100755"])
    qemu.get(paths, arch.X86_64.emulators)
    engines = replace(arch.PTDMA, options=(*arch.PTDMA.options, *arch.DSA.options))
    guest = machine(paths, disk, out, "init=/kexec", cpus=1, machine=engines, clock=vm.Clock())
    kexec = vm.qemu_argv(guest, "stdio", Path(os.devnull))
    bare = kexec[: kexec.index("-kernel")]
    # In virtual time a PC's own firmware does not get past a disk.
    firmware = ("-bios", "/usr/share/ovmf/OVMF.fd", "-drive")
    return {
        "kernel": [*bare, "-kernel", str(made)],
        "firmware": [*bare, *firmware, f"file={stick},{_RAW}"],
        "kexec": [*kexec, *firmware, f"file={disk},{_RAW}"],
    }


def image_check(paths: Paths) -> int:
    """Boot the image in all ways; the last line counts cases."""
    out = paths.out / "image-check"
    made = Stage("image", lambda *_: machines(paths, out), background=True)
    ways = (Stage(way, partial(answer, way), "image", virtual=True) for way in WAYS)
    return stages.run(out, [made, *ways])
