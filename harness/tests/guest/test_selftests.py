"""The programs that a default run of kselftest starts of ours."""

import re

from harness.core.paths import default_paths

_DIRECTORY = default_paths().overlay / "tools/testing/selftests/migrate_offload"
# A test after which modules are stuck, or one that writes to a device's registers.
_DANGEROUS = re.compile(r"\bstuck = true|/dev/mem")


def test_dangerous_programs_are_not_run_by_default() -> None:
    makefile = (_DIRECTORY / "Makefile").read_text()
    lists = re.findall(r"^(TEST_GEN_PROGS\w*) [:+]= (.+)$", makefile, re.MULTILINE)
    named = {(kind, program) for kind, programs in lists for program in programs.split()}
    dangerous = {
        path.stem for path in _DIRECTORY.rglob("*.c") if _DANGEROUS.search(path.read_text())
    }
    assert dangerous
    assert not {("TEST_GEN_PROGS", program) for program in dangerous} & named
    assert {("TEST_GEN_PROGS_EXTENDED", program) for program in dangerous} <= named
