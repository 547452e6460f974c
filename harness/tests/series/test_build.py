"""Kernels of single patches: which are built, from which files, and what is wrong with one."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.kernel import build, stack
from harness.kernel import tree as patches
from harness.series.build import CONFIG, build_steps, by_least_change, compiled_files
from harness.tests.kernel_project import Project


def test_compiled_files() -> None:
    names = ["mm/a.c", "Documentation/mm/a.rst", "MAINTAINERS", "tools/x.c", "mm/Kconfig"]
    assert list(compiled_files(dict.fromkeys(names, ""))) == ["mm/a.c", "mm/Kconfig"]


def test_series_come_in_the_order_of_least_change() -> None:
    tip = {"include/linux/mm.h": "1", "mm/a.c": "1", "mm/b.c": "1"}
    files = {
        "plain": {},
        "code": {"mm/a.c": "1", "mm/b.c": "2"},
        "header": {"include/linux/mm.h": "1", "Documentation/x.rst": "1"},
    }
    assert list(by_least_change(files, tip)) == ["header", "plain", "code"]


class Compiler:
    """Stand in for make; `built` has the content of mm/migrate.c each time."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.says: dict[str, str] = {}

    def run(self, _: object, tree: patches.Tree, config: str, *targets: str, **__: Any) -> str:
        assert (config, targets) == (CONFIG, ("vmlinux_o", "modules"))
        text = (tree.path / "mm/migrate.c").read_text()
        self.built.append(text)
        return next((output for word, output in self.says.items() if word in text), "  CC  mm/x.o")


def test_each_step_is_built_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    make, undefined = Compiler(), {"__start"}
    plain = build.Config(())
    monkeypatch.setattr(build, "CONFIGS", {CONFIG: plain, "base": plain})
    monkeypatch.setattr(build, "compiler", lambda: "gcc 12")
    monkeypatch.setattr(build, "get", lambda *_, **__: None)
    monkeypatch.setattr(build, "configure", lambda _, tree, config: Path(config))
    monkeypatch.setattr(build, "run", make.run)
    monkeypatch.setattr(
        "harness.series.build._undefined_in",
        lambda objects: undefined if objects.name == CONFIG else {"__start"},
    )
    tree = patches.get(project.paths, project.source)
    with stack.assemble(project.paths, project.source) as made:
        make.says["more"] = "mm/migrate.c:17: warning: more\n"
        with pytest.raises(HarnessError, match=r"speed/0002-more.patch: builds with a warning"):
            build_steps(project.paths, made, tree)
        assert len(make.built) == 4
        make.says.clear()
        make.built.clear()
        build_steps(project.paths, made, tree)
        assert ["more" in text for text in make.built] == [True]  # the others were built
        (project.source.home / "built.json").unlink()
        undefined.add("copy_it")
        with pytest.raises(HarnessError, match=r"does not link: copy_it not defined"):
            build_steps(project.paths, made, tree)
