"""Engine presets: what they give to the model, and how a wrong one is refused."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.lab.model import preset as lab_preset
from harness.lab.model.published import OFFLOAD, rows

GOOD = """
source = "a test"
channels = 4
latency_ns = 100
[bandwidth]
1 = 1000
4 = 4000
"""


def load(directory: Path, text: str) -> lab_preset.Preset:
    (directory / "toy.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab_preset, "DIRECTORY", directory)
        return lab_preset.load("toy")


def test_devices_are_channels_of_the_engine_in_a_slower_clock(tmp_path: Path) -> None:
    preset = load(tmp_path, GOOD)
    assert preset.devices(1, 1.0) == (
        "-device",
        "ptdma,desc-ns=100,mbps=0,bandwidth=1=1000/2=2000/3=3000/4=4000",
    )
    assert preset.devices(3, 4.75) == (
        "-device", "ptdma,desc-ns=475,mbps=0,bandwidth=1=211/2=421/3=632/4=842",
        "-device", "ptdma,desc-ns=475,mbps=0", "-device", "ptdma,desc-ns=475,mbps=0",
    )  # fmt: skip
    both = load(tmp_path, 'device = "dsa"\nqueues = 2\n' + GOOD).devices(3, 1.0)
    assert both[2:] == ("-device", "dsa,desc-ns=100,mbps=0")


def test_bandwidth_is_linear_between_what_is_given(tmp_path: Path) -> None:
    preset = load(tmp_path, GOOD.replace("4 = 4000", "2 = 3000\n4 = 3500"))
    assert [preset.total_mbps(n) for n in (1, 2, 3, 4)] == [1000, 3000, 3250, 3500]
    for absent in (0, 5):
        with pytest.raises(HarnessError, match="not"):
            preset.total_mbps(absent)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("latency_ns = 100", "", "toy.toml: Object missing required field `latency_ns`"),
        ("channels = 4", "channels = 17", "toy.toml: Expected `int` <= 16 - at `$.channels`"),
        ("1 = 1000", "", "toy.toml: bandwidth is not for 1 to 4"),
        ("4 = 4000", "", "toy.toml: bandwidth is not for 1 to 4"),
        ("4 = 4000", "4 = 4000\n5 = 1", "toy.toml: bandwidth is not for 1 to 4"),
        ("channels = 4", "channels =", "toy.toml: "),
    ],
)
def test_a_wrong_preset_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(HarnessError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_an_engine_cannot_do_is_refused(tmp_path: Path) -> None:
    preset = load(tmp_path, GOOD)
    with pytest.raises(HarnessError, match="has 1 to 4 channels, not 5"):
        preset.devices(5, 1.0)
    with pytest.raises(HarnessError, match="dilation"):
        preset.devices(1, 1e9)


def test_an_unknown_name_lists_those_there_are() -> None:
    for name in ("zen9", "../presets/zen3-ptdma", ""):
        with pytest.raises(HarnessError, match=f"no engine preset '{name}'; .* zen3-ptdma"):
            lab_preset.load(name)


def test_every_preset_can_be_loaded_and_has_the_published_shape() -> None:
    for name in lab_preset.names():
        preset = lab_preset.load(name)
        assert preset.devices(preset.channels, 4.75)
    engine = lab_preset.load("zen3-ptdma")
    end_to_end = {row.channels: row.gbps for row in rows(OFFLOAD) if row.folio_kib == 2048}
    for channels, gbps in end_to_end.items():
        assert engine.total_mbps(channels) / 1000 == pytest.approx(1.1 * gbps, rel=0.01)
