"""The patched tree: pristine files, our hunks with no fuzz, our new files.

Only files that our patches and overlay touch are ever compared and rewritten, and a file
whose content is right is left alone with its timestamp: a change of one overlay file
rebuilds what depends on that file and nothing else.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import process, ui
from harness.core.errors import HarnessError
from harness.core.paths import Paths
from harness.kernel.source import Source

ALL = "tree"  # with every step

_OPTION = re.compile(r"^\+?\s*(?:menu)?config (\w+)", re.MULTILINE)
_ADDED_OPTION = re.compile(r"^\+\s*(?:menu)?config (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One step of the series: a patch, and the overlay files that it brings."""

    patch: str
    adds: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """The patched tree.

    `files` maps every path that differs from the pristine tree to the hash of its content;
    `key` names the content of the whole tree; `absent` are the Kconfig options of steps that
    are not in it.
    """

    source: Source
    files: dict[str, str]
    key: str
    name: str = ALL
    absent: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Where the patched tree is."""
        return self.source.home / self.name

    @property
    def version(self) -> str:
        """The kernel's version."""
        return self.source.version

    def subset_key(self, *patterns: str) -> str:
        """Name the content of those touched files whose path matches a pattern."""
        chosen = {
            path: digest
            for path, digest in self.files.items()
            if any(re.search(pattern, path) for pattern in patterns)
        }
        return _key(self.source, chosen)


def parse_series(text: str) -> tuple[Step, ...]:
    """Parse kernel/patches/series."""
    steps = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words:
            steps.append(Step(patch=words[0], adds=tuple(words[1:])))
    return tuple(steps)


def touched_paths(patch: str) -> list[str]:
    """Return the paths that a patch edits, in its order."""
    paths = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch, re.MULTILINE)
    return list(dict.fromkeys(paths))


def explain_failure(output: str) -> str:
    """Turn the words of patch(1) into the place where a patch does not apply."""
    file = "?"
    if "can't find file to patch" in output:
        wanted = re.findall(r"^\|\+\+\+ b/(\S+)", output, re.MULTILINE)
        return f"{wanted[-1] if wanted else 'a file that it edits'} does not exist"
    for line in output.splitlines():
        if match := re.match(r"(?:patching|checking) file '?([^']+?)'?$", line):
            file = match[1]
        elif match := re.match(r"Hunk #(\d+) FAILED at (\d+)", line):
            return f"hunk {match[1]} of {file} (line {match[2]}) does not fit"
        elif match := re.match(r"Reversed \(or previously applied\) patch detected", line):
            return f"{file} already has this change"
        elif match := re.search(r"malformed patch at line (\d+)", line):
            return f"it is malformed at its line {match[1]}"
    return process.first_error(output)


def read_series(paths: Paths) -> tuple[Step, ...]:
    """Read the series, and check that it names every patch there is."""
    series = paths.patches / "series"
    steps = parse_series(series.read_text()) if series.exists() else ()
    named = {step.patch for step in steps}
    present = {path.name for path in paths.patches.glob("*.patch")}
    if named - present:
        raise HarnessError(f"kernel/patches/series names missing {sorted(named - present)[0]}")
    if present - named:
        raise HarnessError(f"kernel/patches/series lacks {sorted(present - named)[0]}")
    return steps


def overlay_files(paths: Paths) -> list[str]:
    """Return the paths of all overlay files within the kernel tree."""
    return sorted(
        str(path.relative_to(paths.overlay))
        for path in paths.overlay.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def steps_until(steps: tuple[Step, ...], last: str | None) -> tuple[Step, ...]:
    """Return the steps up to the one called `last`: all for None, none for ''."""
    if last is None:
        return steps
    if not last:
        return ()
    for number, step in enumerate(steps, 1):
        if re.fullmatch(rf"\d+-{re.escape(last)}\.patch", step.patch):
            return steps[:number]
    raise HarnessError(f"kernel/patches/series has no step called {last}")


def _options(paths: Paths, steps: tuple[Step, ...], files: list[str]) -> set[str]:
    """Return the Kconfig options that steps and their overlay files define."""
    texts = [(paths.patches / step.patch).read_text(errors="replace") for step in steps]
    found = {name for text in texts for name in _ADDED_OPTION.findall(text)}
    for file in files:
        if Path(file).name.startswith("Kconfig"):
            found |= set(_OPTION.findall((paths.overlay / file).read_text()))
    return {f"CONFIG_{name}" for name in found}


def overlay_of(steps: tuple[Step, ...], files: list[str]) -> list[str]:
    """Return those overlay files that come with the steps."""
    adds = [name.rstrip("/") for step in steps for name in step.adds]
    return [file for file in files if any(f"{file}/".startswith(f"{add}/") for add in adds)]


def assemble(
    paths: Paths,
    pristine: Path,
    version: str,
    staging: Path,
    steps: tuple[Step, ...],
    overlay: list[str],
    extra: Sequence[Path] = (),
) -> dict[str, str]:
    """Write every file that is ours or edited by us below `staging`; return their hashes."""

    def apply(patch: Path) -> None:
        for path in touched_paths(patch.read_text(errors="replace")):
            target = staging / path
            if not target.exists() and (pristine / path).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(pristine / path, target)
                shutil.copymode(pristine / path, target)
        apply_patch(patch, staging, version)

    for number in steps:
        apply(paths.patches / number.patch)
    for path in overlay:
        if (pristine / path).exists():
            raise HarnessError(f"kernel/overlay/{path} exists in Linux {version} already")
        target = staging / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paths.overlay / path, target)
        shutil.copymode(paths.overlay / path, target)
    for patch in extra:
        apply(patch)
    return {
        str(path.relative_to(staging)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(staging.rglob("*"))
        if path.is_file()
    }


def apply_patch(patch: Path, tree: Path, version: str) -> None:
    """Apply one patch with no fuzz, or say which hunk does not fit."""
    done = subprocess.run(
        ["patch", "-p1", "--fuzz=0", "--forward", "--batch", "--no-backup-if-mismatch",
         "--reject-file=-", "--directory", str(tree), "--input", str(patch.resolve())],
        env=process.environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )  # fmt: skip
    if done.returncode:
        reason = explain_failure(done.stdout + done.stderr)
        raise HarnessError(f"{patch.name} does not apply to Linux {version}: {reason}")


def get(
    paths: Paths,
    source: Source,
    name: str = ALL,
    last: str | None = None,
    extra: Sequence[Path] = (),
) -> Tree:
    """Bring a patched tree up to date and return it.

    `last` is the last step that goes into it ('' for none of them), `extra` are patches that
    follow, `name` the directory of such a tree.
    """
    tree = source.home / name
    manifest = source.home / ("manifest.json" if name == ALL else f"manifest-{name}.json")
    everything = read_series(paths)
    steps = steps_until(everything, last)
    present = overlay_files(paths)
    overlay = present if last is None else overlay_of(steps, present)
    absent = _options(paths, everything, present) - _options(paths, steps, overlay)
    title = "patches" if name == ALL else f"patches of {name}"
    with ui.step(title) as step, tempfile.TemporaryDirectory(dir=source.home) as scratch:
        staging = Path(scratch)
        files = assemble(paths, source.pristine, source.version, staging, steps, overlay, extra)
        before = json.loads(manifest.read_text()) if manifest.exists() else {}
        if before.get("revision") != source.revision or not tree.exists():
            step.progress("linking the pristine tree")
            _link_pristine(source, tree)
            # Whatever was touched before is pristine again.
            before = {"files": {}}
        manifest.unlink(missing_ok=True)  # while files change it would lie
        changed = _update(tree, source.pristine, staging, files, before["files"])
        manifest.write_text(json.dumps({"revision": source.revision, "files": files}, indent=1))
        text = f"{len(steps)} patches, {len(overlay)} new files"
        if changed:
            step.done(f"{text}, {changed} files updated")
        else:
            step.reused(text)
    return Tree(source, files, _key(source, files), name, frozenset(absent))


def _key(source: Source, files: dict[str, str]) -> str:
    text = json.dumps([source.home.name, source.revision, sorted(files.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _link_pristine(source: Source, tree: Path) -> None:
    """Make the tree's files the pristine ones, by hard links; later writes replace files."""
    process.run_logged(
        ["rsync", "-a", "--delete", "--modify-window=-1", f"--link-dest={source.pristine}",
         f"{source.pristine}/", f"{tree}/"],
        source.home / "link.log",
        "linking the tree",
    )  # fmt: skip


def _update(
    tree: Path, pristine: Path, staging: Path, files: dict[str, str], before: dict[str, str]
) -> int:
    """Rewrite what differs, restore what is no longer touched; return how many files."""
    changed = 0
    for path in files:
        if not _same(staging / path, tree / path):
            replace(staging / path, tree / path)
            changed += 1
    for path in before.keys() - files.keys():
        if (pristine / path).exists():
            replace(pristine / path, tree / path)
        else:
            (tree / path).unlink(missing_ok=True)
            _prune(tree / path, pristine, tree)
        changed += 1
    return changed


def _same(one: Path, other: Path) -> bool:
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
