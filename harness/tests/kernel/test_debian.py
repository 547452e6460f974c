"""Debian's packages: what the apt of another architecture is told, and its failures."""

from pathlib import Path

import pytest

from harness.core import ui
from harness.core.errors import HarnessError
from harness.kernel import debian


@pytest.fixture(autouse=True)
def _keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_keyring", lambda: Path("/keys.gpg"))


def test_a_private_apt_keeps_everything_below_its_directory(tmp_path: Path) -> None:
    apt = debian.private_apt(tmp_path / "apt", "mirror:/debian", "suite", "arm64")
    options = dict(word.split("=", 1) for word in apt[3::2])
    assert options["APT::Architecture"] == options["APT::Architectures::"] == "arm64"
    places = [value for name, value in options.items() if name.startswith("Dir::")]
    assert [value for value in places if value not in ("-",)] == [
        value for value in places if value.startswith(str(tmp_path))
    ]
    assert Path(options["Dir::State::status"]).read_text() == ""
    sources = Path(options["Dir::Etc::sourcelist"]).read_text()
    assert sources == "deb [signed-by=/keys.gpg] mirror:/debian suite main\n"


def test_the_host_s_own_apt_keeps_its_architecture_and_its_packages(tmp_path: Path) -> None:
    apt = debian.private_apt(tmp_path / "apt", "mirror:/debian", "suite")
    assert not [word for word in apt if "rchitecture" in word or "State::status" in word]


def test_the_next_mirror_is_asked_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "mirrors", lambda _: ["bad", "good"])

    def fetch(mirror: str) -> Path:
        if mirror == "bad":
            raise HarnessError("no such package")
        return Path(mirror)

    with ui.step("test") as step:
        assert debian.from_any_mirror(fetch, step, "it") == Path("good")
        monkeypatch.setattr(debian, "mirrors", lambda _: ["bad", "bad"])
        with pytest.raises(HarnessError, match="cannot fetch it") as caught:
            debian.from_any_mirror(fetch, step, "it")
        assert caught.value.detail.splitlines() == [
            "mirror 1: no such package",
            "mirror 2: no such package",
        ]
