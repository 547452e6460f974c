"""Debian packages: versions that grow, and of what is built only what is shipped."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT, default_paths
from harness.deb import packages

NOW = 1764028800.0
GUIDE = "Documentation/admin-guide/mm/migrate_offload.rst"
BUILT = ("migrate_bench", "migrate-offload-doctor", "migrate-offload.8", "migrate-offload-report.8")


def test_a_later_build_has_a_higher_version_and_no_revision(tmp_path: Path) -> None:
    early, late = (packages.version_of("7.3.4", NOW + later) for later in (0, 1))
    for version in (early, late):
        assert "-" not in version
    process.capture(["dpkg", "--compare-versions", early, "lt", late])
    process.capture(["dpkg", "--compare-versions", late, "lt", "7.3.5"])
    (tmp_path / "changelog").write_text(packages.changelog(early, NOW))
    words = ["dpkg-parsechangelog", "-l", str(tmp_path / "changelog"), "-S", "Version"]
    assert process.capture(words).strip() == early


def test_only_the_package_that_is_wanted_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("linux-image-7_2_amd64.deb", "linux-libc-dev_2_amd64.deb",
                 "linux-u_2_amd64.changes", "linux-image-7_1_amd64.deb"):  # fmt: skip
        (tmp_path / name).write_text(name)
    (kept,) = packages._collect(tmp_path, "linux-*_2_*", out, "linux-image-*_2_*.deb")
    assert kept == out / "linux-image-7_2_amd64.deb"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linux-image-7_1_amd64.deb", "out"]
    with pytest.raises(HarnessError, match="has 0 files linux-image"):
        packages._collect(tmp_path, "linux-*_2_*", out, "linux-image-*_2_*.deb")


def test_the_tools_have_all_that_their_package_names() -> None:
    deb = default_paths().root / "deb"
    tools = default_paths().overlay / "tools/mm"
    assert all((tools / name).exists() for name in packages._SOURCES)
    for name in ("install", "manpages"):
        for line in (deb / f"debian/{packages.TOOLS}.{name}").read_text().splitlines():
            (pattern,) = line.split()[:1]
            assert pattern.startswith(BUILT) or [*deb.glob(pattern), *tools.glob(pattern)], pattern


def test_an_administrator_turns_copy_offload_on_and_off(
    tmp_path: Path, tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine of files, with the reasons that the guide has."""
    monkeypatch.setenv("MIGRATE_OFFLOAD_ROOT", str(tmp_path))
    guide, *_ = (default_paths().overlay / GUIDE).read_text().split("Reasons gain")
    routes = tmp_path / "sys/kernel/mm/migrate_offload/routes"
    channel = tmp_path / "sys/class/dma/dma0chan0/device"
    for path in (routes, channel, tmp_path / "ptdma", tmp_path / "sys/module/dcbm/parameters"):
        path.mkdir(parents=True)
    (channel / "driver").symlink_to(tmp_path / "ptdma")
    (routes / "../enabled").write_text("0")
    for reason in re.findall(r"^   ([a-z_]+)   ", guide, re.MULTILINE):
        (routes / reason).write_text("none")

    def run(words: str, wanted: int = 0) -> list[str]:
        command = [str(default_paths().root / "deb/migrate-offload"), *words.split()]
        status, output = process.attempt(command, tmp_path)
        assert status == wanted, output
        files = sorted(path for name in ("sys", "etc") for path in (tmp_path / name).rglob("*"))
        return [f"{path.parent.name}: {line}" for path in files if path.is_file()
                for line in path.read_text().splitlines() if line not in ("0", "none")]  # fmt: skip

    off = run("disable")
    tool("modprobe", "")
    for words in ("enable all", "enable --engine=pt bulk", "enable --engine=ptdma", "on",
                  "enable --cpus --engine=ptdma all"):  # fmt: skip
        assert run(words, 2) == off
    tool("modprobe", "false")
    assert run("enable --cpus all", 2) == off
    tool("modprobe", "")
    on = run("enable --engine=ptdma bulk")
    assert on.count("routes: dcbm") == sum("/routes/" in line for line in on) == 4
    line = "tmpfiles.d: w /sys/kernel/mm/migrate_offload/enabled - - - - 1"
    kept = {line, "modules-load.d: dcbm", "modprobe.d: options dcbm providers=ptdma"}
    assert kept | {"parameters: ptdma", "migrate_offload: 1"} < set(on)
    tool("migrate-offload-doctor", "echo {}")
    assert run("doctor --write-config --json") == on
    again = run("enable --engine=ptdma demotion bulk")
    assert again.count("routes: dcbm") == 5
    assert run("enable --engine=ptdma bulk") == on
    line = "echo 6 > /sys/module/dcbm/parameters/min_order"
    tool("migrate-offload-doctor", f"echo '  modprobe mtcopy\n  {line}'; exit $1")
    assert run("doctor --write-config 1", 1) == on
    kept = {"modules-load.d: mtcopy", "modprobe.d: options dcbm min_order=6", "parameters: 6"}
    assert kept < set(run("doctor --write-config 0"))
    (routes / "../enabled").unlink()
    assert not any(line.startswith("modules-load.d") for line in run("disable"))
    (routes / "../enabled").write_text("1")
    assert set(run("disable")) == {"parameters: ptdma", "parameters: 6"}
    assert run("status --all") == run("status --any", 2)
    stats = tmp_path / "sys/kernel/debug/migrate_offload/stats"
    stats.parent.mkdir(parents=True)
    counts = ("folios_copied 7", "live_copied 3", "fallback_lost 2", "declined 1", "batches 9")
    stats.write_text("".join(f"demotion {count}\n" for count in counts))
    _, told = process.attempt(["deb/migrate-offload", "status"], ROOT)
    assert "copied 7 folios, 3 live, and did not copy 3: lost 2, declined 1.\n" in told
    assert "the memory of 2 folios is lost" in told


def test_a_report_of_an_hour_needs_a_kernel_of_ours(
    tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for option, status, word in (("--help", 0, "Usage"), ("--x", 2, "--x"), ("--force", 2, "ker")):
        ended = process.attempt(["deb/migrate-offload-report", option], ROOT)
        assert (ended[0], word in ended[1]) == (status, True)
    tool("migrate-offload-report", 'echo "hour $@"; exit 3')
    assert process.attempt(["deb/migrate-offload", "report", "--x"], ROOT) == (3, "hour --x\n")
