"""Guest programs: which files travel besides the compiled ones."""

from pathlib import Path

from harness.kernel import programs


def test_scripts_travel_and_sources_do_not(tmp_path: Path) -> None:
    origin, output = tmp_path / "in", tmp_path / "out"
    for directory in (origin, output):
        directory.mkdir()
    for name in ("Makefile", "config", "settings", "rules.c", "area.h", "buffer_heads.sh"):
        (origin / name).write_text(name)
    (origin / "buffer_heads.sh").chmod(0o755)
    programs._copy_scripts(origin, output)
    assert [path.name for path in output.iterdir()] == ["buffer_heads.sh"]
    assert (output / "buffer_heads.sh").stat().st_mode & 0o111
