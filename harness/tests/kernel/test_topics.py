"""kernel/patches as it is read: what contradicts itself is refused before anything is built."""

import pytest

from harness.core.errors import HarnessError
from harness.kernel import topics
from harness.tests.kernel_project import Project


def problems(project: Project) -> str:
    with pytest.raises(HarnessError) as caught:
        topics.read(project.paths)
    return f"{caught.value}\n{caught.value.detail}"


def test_topics_in_order_with_steps_and_all_needs(project: Project) -> None:
    project.write(project.patch("lab/needs"), "speed # and so fix\n")
    read = topics.read(project.paths)
    assert [(topic.name, topic.needs) for topic in read] == [
        ("fix", ()), ("speed", ("fix",)), ("lab", ("fix", "speed")),
    ]  # fmt: skip
    assert read[1].steps[0].name == "speed/0001-ten.patch"
    assert read[1].steps[0].overlay == ("drivers/new/dcbm.c", "mm/offload.c")
    assert read[0].cover == "mm: fix\n\nBody.\n"


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("topics", "fix\nspeed\n", "kernel/patches/topics does not name lab"),
        ("topics", "fix\nspeed\nlab\nx\n", "topics names x, which does not exist"),
        ("topics", "fix\nspeed\nlab\nlab\n", "topics names lab twice"),
        ("lab/series", "", "lab/series does not name 0001-rmap.patch"),
        ("fix/series", "0001-four.patch\n0002-x.patch\n", "names 0002-x.patch, which does not"),
        ("fix/needs", "lab\n", "fix/needs: no topic lab before fix"),
        ("speed/series", "0002-more.patch mm/ drivers\n0001-ten.patch\n", "not in the order"),
        ("speed/series", "0001-ten.patch mm\n0002-more.patch\n", "overlay/drivers/new/dcbm.c be"),
        ("lab/series", "0001-rmap.patch mm/offload.c\n", "mm/offload.c belongs to speed/0001-"),
        ("lab/series", "0001-rmap.patch mm/gone.c\n", "mm/gone.c is not in kernel/overlay"),
    ],
)
def test_contradictions(project: Project, file: str, text: str, problem: str) -> None:
    project.write(project.patch(file), text)
    assert problem in problems(project)


def test_each_topic_names_its_tests_or_says_that_it_has_none(project: Project) -> None:
    assert [topic.tests for topic in topics.read(project.paths)] == [(), (), ()]
    project.write(project.patch("fix/tests"), "kunit\none as-is move -t x machine=ptdma # y\n")
    first, second = topics.read(project.paths)[0].tests
    assert (first.suite, first.arguments, first.machine) == ("kunit", (), "")
    assert (second.arguments, second.machine) == (("as-is", "move", "-t", "x"), "ptdma")
    assert str(second) == "one as-is move -t x machine=ptdma"
    for text in ("\n", ""):
        project.write(project.patch("fix/tests"), text)
        assert "kernel/patches/fix/tests is missing: name suites" in problems(project)
    project.patch("fix/tests").unlink()
    assert "kernel/patches/fix/tests is missing: name suites" in problems(project)


def test_missing_cover_letter_and_symbolic_link(project: Project) -> None:
    project.patch("lab/cover-letter.txt").unlink()
    assert "kernel/patches/lab/cover-letter.txt is missing" in problems(project)
    project.write(project.patch("lab/cover-letter.txt"), "mm: lab")
    (project.paths.overlay / "mm/link").symlink_to("offload.c")
    assert "kernel/overlay/mm/link is a symbolic link" in problems(project)


def test_find_by_part_of_the_name(project: Project) -> None:
    steps = topics.all_steps(topics.read(project.paths))
    for text in ("speed/0002", "more", "speed/0002-more.patch"):
        assert topics.find(steps, text).name == "speed/0002-more.patch"
    with pytest.raises(HarnessError, match="PATCH=0001 may be any of 3: fix/0001-four, speed/"):
        topics.find(steps, "0001")
    with pytest.raises(HarnessError, match="no patch is called 'fixx'"):
        topics.find(steps, "fixx")
    with pytest.raises(HarnessError, match="PATCH= may be any of 4: fix/0001-four, "):
        topics.find(steps, "")


def test_select_steps_and_whole_series(project: Project) -> None:
    steps = topics.all_steps(topics.read(project.paths))
    whole = [step.name for step in steps if step.topic == "speed"]
    assert [step.name for step in topics.select(steps, ("speed",))] == whole
    assert [step.name for step in topics.select(steps, ("more", "fix"))] == [
        "fix/0001-four.patch",
        "speed/0002-more.patch",
    ]
    assert topics.select(steps, ()) == []
    with pytest.raises(HarnessError, match="no patch is called 'fixx'"):
        topics.select(steps, ("fixx",))
