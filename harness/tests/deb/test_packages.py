"""Debian packages: versions that grow, and of what is built only what is shipped."""

import re
from pathlib import Path

import pytest

from harness.core import process
from harness.core.errors import HarnessError
from harness.core.paths import ROOT, default_paths
from harness.deb import packages

NOW = 1764028800.0
GUIDE = "Documentation/admin-guide/mm/migrate_offload"


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
    found = packages._collect(tmp_path, "linux-*_2_*", "linux-image-*_2_*.deb", out)
    assert found == out / "linux-image-7_2_amd64.deb"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linux-image-7_1_amd64.deb", "out"]
    with pytest.raises(HarnessError, match="has 0 files linux-image"):
        packages._collect(tmp_path, "linux-*_2_*", "linux-image-*_2_*.deb", out)


def test_the_tools_have_all_that_their_package_names() -> None:
    deb = default_paths().root / "deb"
    tools = default_paths().overlay / "tools/mm"
    assert all((tools / name).exists() for name in packages._SOURCES)
    for name in ("install", "manpages", "examples"):
        for line in (deb / f"debian/{packages.TOOLS}.{name}").read_text().splitlines():
            (pattern,) = line.split()[:1]
            built = pattern in ("migrate_bench", "migrate-offload-doctor", "migrate_bench.1")
            assert built or [*deb.glob(pattern), *tools.glob(pattern)], pattern


def test_the_examples_set_what_the_kernel_has() -> None:
    """Each route of the example is documented, and so is each parameter of dcbm."""
    paths = default_paths()
    guide = (paths.overlay / f"{GUIDE}.rst").read_text()
    routes = (paths.root / "deb/examples/tmpfiles.d/migrate-offload.conf").read_text()
    lines = re.findall(r"^#?w +(\S+) +- - - - \w+$", routes, re.MULTILINE)
    assert len(lines) == len(re.findall(r"^#?w ", routes, re.MULTILINE)) == 7
    for path in lines:
        name = path.removeprefix("/sys/kernel/mm/migrate_offload/")
        reason = name.removeprefix("routes/")
        assert (name if reason == name else f"\n   {reason} ") in guide
    options = (paths.root / "deb/examples/modprobe.d/migrate-offload.conf").read_text()
    found = re.findall(r"^#?options dcbm (\w+)=", options, re.MULTILINE)
    assert found == ["channels", "providers", "min_order"]
    assert all(f"\n{name} (" in guide for name in found)


def test_a_report_of_an_hour_needs_a_kernel_of_ours() -> None:
    for option, status, word in (("--help", 0, "Usage"), ("--x", 2, "--x"), ("--force", 2, "root")):
        ended = process.attempt(["deb/migrate-offload-report", option], ROOT)
        assert (ended[0], word in ended[1]) == (status, True)
