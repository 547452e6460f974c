"""Fixtures that tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.paths import Paths
from harness.tests.kernel_project import Project


@pytest.fixture(autouse=True)
def paths_of_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give commands other directories: `make check`, which runs the tests, locks its own."""
    monkeypatch.setattr("harness.cli.default_paths", lambda: Paths(*[tmp_path] * 3))
    monkeypatch.setattr("harness.cli.pin", lambda _: None)  # what is in them


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project and a kernel of a few files."""
    return Project(tmp_path)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Return what makes a shell script a program that is found before all others."""
    home = tmp_path / "tools"
    home.mkdir()
    monkeypatch.setenv("PATH", str(home), prepend=":")

    def make(name: str, script: str) -> Path:
        (home / name).write_text(f"#!/bin/sh\n{script}\n")
        (home / name).chmod(0o755)
        return home / name

    return make
