"""What two kernels left of random layouts of memory: parsed, and compared.

Where our kernel is meant to differ from vanilla, a rule below says so; nothing else may.

- What the LRU makes of a folio's age depends on lists of each CPU and on how many folios are
  in them: it is not compared at all. What page tables say is.
- Vanilla marks every large anonymous folio that it moves as partially mapped, and queues it
  for a split: ours must leave the mark and the queue as they were before the move.
- Folios that vanilla has marked so it splits when they move again ("back"). From then on the
  sizes of these folios, whether a PMD maps them, and what is counted for a whole one are not
  compared, nor, where they are written to, is what depends on the choice between writing in
  place and copying. What a PMD maps is exclusive if its first page is; /proc sums up huge
  pages, and tells exclusive ones, with such a PMD in mind.
- A folio in the swap cache that has left the queue does not return to it, in either kernel.
- What move_pages(2) says of pages that vanilla split on the way back is not compared.
- Such a split also gives their pages of zeros back: these are not compared from then on, and
  nor is what /proc sums up where there are some.
- Of what was split small folios are mlocked where a part of a large one would not be: that
  flag, and the count of such pages if there is a split folio, are not compared, either.
- A pin moves pages out of ZONE_MOVABLE: where there was one, marks and mlocked flags before
  the move are like those after one.
- Vanilla loses the mlocked flag of large folios that are mapped by PTEs: ours may keep it, or
  set it where the folio is in a locked mapping now, as both do for small folios.
- Written to after a second move: where vanilla writes in place ours may copy, or the other way
  round. A copy is where mbind(2) wants it, so nodes are not compared if it was called.
- The last owner of a small page that was shared writes in place unless somebody else holds a
  reference, as the lists of each CPU do of folios that are to be mlocked or put on the LRU. How
  full these are depends on the number of folios: where vanilla has split some, these pages are
  compared as the split ones are.
"""

import base64
import difflib
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

_PAGES = re.compile(
    r"(?P<first>[0-9a-f]+)\+(?P<number>[0-9a-f]+) (?P<pte>\S+)"
    r"(?: folio (?P<folio>\d+)\.(?P<index>\d+) order (?P<order>\d+) node (?P<node>-?\d+)"
    r" map (?P<map>-?\d+) large (?P<large>-?\d+) entire (?P<entire>-?\d+)"
    r" pages (?P<pages>[0-9a-f]+) (?P<flags>\S+))?(?P<rest>.*)"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LABELS = frozenset(("partial", "queued"))
_LOCKED = frozenset(("mlocked", "unevictable"))
_LOCKED_COUNTERS = re.compile(r" nr_mlock [+-]\d+")
_HUGE_SUMS = re.compile(r" AnonHugePages \d+| nr_anon_transparent_hugepages [+-]\d+")
_LOCKED_MAPPING = re.compile(
    r" smaps (?P<first>[0-9a-f]+)\+(?P<number>[0-9a-f]+):.* VmFlags:.* lo( |$)"
)
_SUMS = re.compile(r"counters | rss | smaps | pagemap |p\d wrote ")
# Of a whole folio, or a consequence of how large it is when it is written to.
_OF_FOLIO = _LABELS | _LOCKED | {"shared", "referenced", "active"}
_OF_COPIES = _OF_FOLIO | {"fdirty", "swapbacked", "workingset", "idle"}
_AGE = frozenset(("referenced", "active"))
_PIN = re.compile(r"p\d+ pin ")
_HOLD = re.compile(r"^p\d hold ")
_MOVE = re.compile(r"move process (\d+) ")
_STATUS = re.compile(r" ([0-9a-f]+)\+([0-9a-f]+):(-?\d+)")
_PAUSED = re.compile(r"paused: .*, (\d+) large folios")
_REFERENCES = re.compile(r" refs ([+-]\d+)")
_CONTENTS = " contents "
_CONTEXT = 1
_SHOWN = 40


Key = tuple[int, int]
"""The number of a process, and that of a page in its arena."""


@dataclass(frozen=True)
class Layout:
    """What a seed stands for, and the lines of each stage."""

    seed: int
    built: tuple[str, ...]
    stages: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Finding:
    """What is wrong with a layout, and what only differs; false if there is nothing."""

    wrong: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.wrong or self.different)


@dataclass(frozen=True)
class Folio:
    """Where in which folio a page is, and what is counted for the folio."""

    number: int
    index: int
    order: int
    large: int
    entire: int
    mapped: str


@dataclass(frozen=True)
class Page:
    """One page as a process sees it; `flags` are the folio's, and the page's."""

    pte: str
    node: int = 0
    mapcount: int = 0
    flags: frozenset[str] = frozenset()
    folio: Folio | None = None
    rest: str = ""

    @property
    def references(self) -> int:
        """References to the folio that nothing visible explains."""
        match = _REFERENCES.search(self.rest)
        return int(match[1]) if match else 0

    def __str__(self) -> str:
        """Return the page as one line, with what the comparison left of it."""
        if not self.flags and self.folio is None:
            return f"{self.pte}{self.rest}"
        place = ""
        if self.folio:
            one = self.folio
            place = (
                f" folio {one.number}.{one.index} order {one.order} large {one.large}"
                f" entire {one.entire} pages {one.mapped}"
            )
        words = ",".join(sorted(self.flags))
        return f"{self.pte} node {self.node} map {self.mapcount}{place} {words}{self.rest}"


@dataclass
class Stage:
    """The pages of a stage, by process and page number, and all other lines."""

    pages: dict[Key, Page] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def unpack(results: str) -> str:
    """Return what `migrate_layouts` printed from the suite's results: base64 of gzip."""
    packed = [line for line in results.splitlines() if _BASE64.fullmatch(line)]
    try:
        return gzip.decompress(base64.b64decode("".join(packed))).decode(errors="replace")
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"the results cannot be unpacked: {error}") from error


def parse(text: str) -> dict[int, Layout]:
    """Return all layouts in what `migrate_layouts` printed, which must be whole."""
    layouts: dict[int, Layout] = {}
    seed: int | None = None
    built: list[str] = []
    stages: dict[str, list[str]] = {}
    lines = built
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "layout":
            if seed is not None:
                raise ValueError(f"layout {seed} has no end")
            seed, built, stages = int(rest), [], {}
            lines = built
        elif seed is None:
            continue
        elif word == "stage":
            lines = stages.setdefault(rest, [])
        elif word == "end":
            whole = {name: tuple(said) for name, said in stages.items()}
            layouts[seed] = Layout(seed, tuple(built), whole)
            seed = None
        else:
            lines.append(line)
    if seed is not None:
        raise ValueError(f"layout {seed} has no end")
    return layouts


def parse_stage(lines: Iterable[str]) -> Stage:
    """Return the pages of a stage one by one."""
    stage = Stage()
    process = 0
    for line in lines:
        match = _PAGES.fullmatch(line)
        if not match:
            if line.startswith("process "):
                process = int(line.removeprefix("process "))
            stage.lines.append(line)
            continue
        first = int(match["first"], 16)
        for offset, page in enumerate(_pages_of(match)):
            stage.pages[process, first + offset] = page
    return stage


def _pages_of(match: re.Match[str]) -> Iterator[Page]:
    number = int(match["number"], 16)
    if match["folio"] is None:
        yield from [Page(match["pte"], rest=match["rest"])] * number
        return
    order = int(match["order"])
    for offset in range(number):
        # Small folios in one line were first seen one after the other.
        further, inside = (0, offset) if order else (offset, 0)
        yield Page(
            pte=match["pte"],
            node=int(match["node"]),
            mapcount=int(match["map"]),
            flags=frozenset(match["flags"].split(",")),
            folio=Folio(
                int(match["folio"]) + further, int(match["index"]) + inside, order,
                int(match["large"]), int(match["entire"]), match["pages"],
            ),
            rest=match["rest"],
        )  # fmt: skip


def judge(ours: Layout, vanilla: Layout | None = None) -> Finding:
    """Return what is wrong with a layout of ours, and how it differs from vanilla's."""
    stages = {name: parse_stage(lines) for name, lines in ours.stages.items()}
    wrong, different = wrongs(ours), unlike_before(ours, stages)
    if vanilla:
        wrong += _other_contents(vanilla, ours)
        different += compare(vanilla, ours)
    return Finding(wrong, different)


def _other_contents(vanilla: Layout, ours: Layout) -> list[str]:
    """Return sums of contents that are not vanilla's, where mappings are the same."""
    found = []
    for name in vanilla.stages.keys() & ours.stages.keys():
        old, new = (
            [line for line in layout.stages[name] if line.startswith(_CONTENTS)]
            for layout in (vanilla, ours)
        )
        found += _difference(f"{name}: CONTENTS", old, new)
    return found


def compare(vanilla: Layout, ours: Layout) -> list[str]:
    """Return how two kernels differ in one layout, in words; nothing if they do not."""
    if found := _difference("layout", vanilla.built, ours.built):
        return found
    if list(vanilla.stages) != list(ours.stages):
        return [f"stages: {', '.join(vanilla.stages)}; ours: {', '.join(ours.stages)}"]
    before, there = (parse_stage(ours.stages.get(name, ())) for name in ("before", "there"))
    split: frozenset[Key] = frozenset()
    if "back" in ours.stages:
        split = _marked(parse_stage(vanilla.stages.get("there", ())))
    # Those that a write may copy, or not, by chance.
    shared = _small_shared(parse_stage(ours.stages.get("back", ()))) if split else split
    bound = any(line.startswith("mbind ") for said in ours.stages.values() for line in said)
    pinned = any(_PIN.match(line) for line in ours.built)
    for name in vanilla.stages:
        old, new = vanilla.stages[name], ours.stages[name]
        if old == new:
            continue
        both = (parse_stage(old), parse_stage(new))
        theirs, mine = (_flagless(one, _AGE, one.pages.keys()) for one in both)
        if name == "written":
            theirs, mine = (_flagless(one, _OF_COPIES, shared) for one in (theirs, mine))
        if name == "written" and bound:
            theirs, mine = (_nowhere(one, split | shared) for one in (theirs, mine))
        if name == "before":
            if pinned:
                theirs, mine = _with_locks_kept(theirs, mine, Stage())
                theirs, mine = _without_labels(theirs), _without_labels(mine)
            found += _difference(name, list(_lines(theirs)), list(_lines(mine)))
        else:
            found += _compare_stage(name, theirs, mine, before, there, split)
    return found


def _marked(there: Stage) -> frozenset[Key]:
    """Return the pages of folios that vanilla will split, should they move again."""
    return frozenset(key for key, page in there.pages.items() if "partial" in page.flags)


def _small_shared(stage: Stage) -> frozenset[Key]:
    """Return the small pages that several page tables map."""
    return frozenset(
        key
        for key, page in stage.pages.items()
        if "shared" in page.flags and page.folio and not page.folio.order
    )


def _flagless(stage: Stage, flags: frozenset[str], keys: Set[Key]) -> Stage:
    """Return a stage whose pages of these keys have lost some flags."""
    pages = {
        key: replace(page, flags=page.flags - flags) if key in keys else page
        for key, page in stage.pages.items()
    }
    return Stage(pages, stage.lines)


def _without_labels(stage: Stage) -> Stage:
    return _without(stage, _LABELS, frozenset())


def _compare_stage(
    name: str, old: Stage, new: Stage, before: Stage, there: Stage, split: frozenset[Key]
) -> list[str]:
    """Compare a stage after a move; `split` are the pages of what vanilla splits next."""
    old, new = _with_locks_kept(old, new, before)
    if name == "there" or not split:
        # The results of the move back are among the lines of "there".
        old, new = (Stage(one.pages, _results_without(one.lines, split)) for one in (old, new))
        old, new = _without_labels(old), _without_labels(new)
        return _difference(name, list(_lines(old)), list(_lines(new)))
    ignored = _OF_COPIES if name == "written" else _OF_FOLIO
    old, new = (_exclusive_as_a_whole(stage, split) for stage in (old, new))
    old, new = (_without_zeros(stage, there, split) for stage in (old, new))
    old, new = (Stage(one.pages, _uncounted(one.lines)) for one in (old, new))
    if any(key in there.pages and _by_pmd(there.pages[key]) for key in split):
        old, new = (Stage(one.pages, _without_huge_sums(one.lines)) for one in (old, new))
    old, new = (_without(stage, ignored, split) for stage in (old, new))
    return _difference(name, list(_lines(old)), list(_lines(new)))


def _results_without(lines: Iterable[str], keys: Set[Key]) -> list[str]:
    """Return lines whose results of move_pages(2) are those of other pages, one by one."""
    process, found = 0, []
    for said in lines:
        line = said
        if match := _MOVE.match(line):
            process = int(match[1])
        if line.startswith(" status"):
            pages = (
                (int(first, 16) + offset, value)
                for first, number, value in _STATUS.findall(line)
                for offset in range(int(number, 16))
            )
            kept = [f"{page:x}:{value}" for page, value in pages if (process, page) not in keys]
            line = " ".join([" status", *kept])
        found.append(line)
    return found


def _with_locks_kept(old: Stage, new: Stage, before: Stage) -> tuple[Stage, Stage]:
    """Forgive vanilla what it lost and ours kept: flags that a page had before the move.

    A page that was not mapped then has those of its folio, if it is mapped now.
    """
    pages = dict(old.pages)
    lines = (old.lines, new.lines)
    ranges = list(_locked_ranges(new.lines))
    locked = {
        page.folio.number: before.pages[key].flags & _LOCKED
        for key, page in new.pages.items()
        if page.folio and key in before.pages and before.pages[key].flags & _LOCKED
    }
    in_locked = {
        page.folio.number
        for key, page in new.pages.items()
        if page.folio and page.folio.order and _inside(key, ranges)
    }
    for key, page in new.pages.items():
        theirs, was = pages.get(key), before.pages.get(key)
        if theirs is None or theirs.flags == page.flags:
            continue
        number = page.folio.number if page.folio else -1
        flags = was.flags if was and was.folio else locked.get(number, frozenset())
        if number in in_locked:
            flags |= _LOCKED
        kept = (page.flags - theirs.flags) & _LOCKED & flags
        lost = theirs.flags & _LOCKED - page.flags
        if kept and not lost:
            pages[key] = replace(theirs, flags=theirs.flags | kept)
            lines = (_uncounted(old.lines), _uncounted(new.lines))
    return Stage(pages, lines[0]), Stage(dict(new.pages), lines[1])


def _locked_ranges(lines: Iterable[str]) -> Iterator[tuple[int, range]]:
    """Return the processes, and the page numbers, of mappings that are locked."""
    process = 0
    for line in lines:
        if line.startswith("process "):
            process = int(line.removeprefix("process "))
        elif match := _LOCKED_MAPPING.match(line):
            first = int(match["first"], 16)
            yield process, range(first, first + int(match["number"], 16))


def _inside(key: Key, ranges: Iterable[tuple[int, range]]) -> bool:
    return any(key[0] == process and key[1] in pages for process, pages in ranges)


def _nowhere(stage: Stage, split: frozenset[Key]) -> Stage:
    pages = {
        key: replace(page, node=-1) if key in split else page
        for key, page in stage.pages.items()
    }
    return Stage(pages, stage.lines)


def _uncounted(lines: Sequence[str]) -> list[str]:
    return [
        _LOCKED_COUNTERS.sub("", line) if line.startswith("counters") else line
        for line in lines
    ]


def _without_huge_sums(lines: Iterable[str]) -> list[str]:
    return [_HUGE_SUMS.sub("", line) for line in lines if not line.startswith(" pagemap ")]


def _exclusive_as_a_whole(stage: Stage, keys: Set[Key]) -> Stage:
    def told(key: Key, page: Page) -> Page:
        if key not in keys or not page.folio or not _by_pmd(page):
            return page
        first = stage.pages.get((key[0], key[1] - page.folio.index), page)
        return replace(page, flags=page.flags | first.flags & {"exclusive"})

    return Stage({key: told(key, page) for key, page in stage.pages.items()}, stage.lines)


def _by_pmd(page: Page) -> bool:
    return page.pte.startswith("pmd,")


def _without_zeros(stage: Stage, there: Stage, split: frozenset[Key]) -> Stage:
    """Return a stage without split pages that were zero, and without sums over them."""
    zeros = {key for key in split & there.pages.keys() if "zero" in there.pages[key].flags}
    if not zeros:
        return stage
    pages = {key: page for key, page in stage.pages.items() if key not in zeros}
    lines = [line for line in stage.lines if not _SUMS.match(line)]
    return Stage(pages, lines)


def _without(stage: Stage, flags: frozenset[str], split: frozenset[Key]) -> Stage:
    """Return a stage without labels, and without some flags and the folio of what was split.

    Where something was split folios have other numbers, but the rest of them is the same.
    """

    def reduced(key: Key, page: Page) -> Page:
        if key in split:
            pte = page.pte.removeprefix("pmd,")
            return replace(page, pte=pte, flags=page.flags - flags, folio=None)
        folio = page.folio
        if split and folio:
            folio = replace(folio, number=0)
        return replace(page, flags=page.flags - _LABELS, folio=folio)

    return Stage({key: reduced(key, page) for key, page in stage.pages.items()}, stage.lines)


def _lines(stage: Stage) -> Iterator[str]:
    yield from stage.lines
    for (process, number), page in sorted(stage.pages.items()):
        yield f"process {process} page {number:x}: {page}"


def unlike_before(layout: Layout, stages: Mapping[str, Stage]) -> list[str]:
    """Return what a move of ours changed that none may change: no other kernel is needed.

    That is a folio's label, or its place in the queue, unless it lost mappings meanwhile, when
    it has to be labelled; its size, unless it was labelled; and references that nobody has an
    account of.
    """
    found: list[str] = []
    held = any(_HOLD.search(line) for lines in layout.stages.values() for line in lines)
    for name in ("there", "back"):
        if "before" in stages and name in stages:
            found += _new_labels(name, stages["before"], stages[name])
            found += _unlabelled(name, stages["before"], stages[name])
            found += [] if held else _new_references(name, stages["before"], stages[name])
    for then, now in (("there", "back"), ("back", "written")):
        if then in stages and now in stages:
            found += _split(now, stages[then], stages[now])
    return _shortened(found)


def _pairs(then: Stage, now: Stage) -> Iterator[tuple[Page, Page, Folio, Folio, str]]:
    """Return pages that belong to a folio at two stages, the folios, and a name."""
    for (process, number), page in now.pages.items():
        was = then.pages.get((process, number))
        if was and was.folio and page.folio:
            yield was, page, was.folio, page.folio, f"process {process} page {number:x}"


def _new_labels(name: str, before: Stage, stage: Stage) -> Iterator[str]:
    for was, page, old, new, where in _pairs(before, stage):
        if old.order != new.order or (old.large, old.mapped) != (new.large, new.mapped):
            continue
        changed = (was.flags ^ page.flags) & _LABELS
        if "swapcache" in page.flags:
            changed -= was.flags & {"queued"}
        if changed:
            words = ", ".join(
                f"{'not ' if label in was.flags else ''}{label}" for label in sorted(changed)
            )
            yield f"{name}: {where}: now {words}: {page}"


def _unlabelled(name: str, before: Stage, stage: Stage) -> Iterator[str]:
    for _, page, old, new, where in _pairs(before, stage):
        whole = new.entire or new.large >= min(old.large, 1 << new.order)
        marked = "partial" in page.flags or "anon" not in page.flags or old.order != new.order
        if not whole and not marked:
            yield f"{name}: {where}: mapped in part, and not marked: {page}"


def _new_references(name: str, before: Stage, stage: Stage) -> Iterator[str]:
    for was, page, old, new, where in _pairs(before, stage):
        if old.order == new.order and page.references > was.references:
            yield f"{name}: {where}: {page.references} more references: {page}"


def _split(name: str, then: Stage, now: Stage) -> Iterator[str]:
    """Return pages of folios that are smaller now; what is shared is copied when written."""
    for was, page, old, new, where in _pairs(then, now):
        copied = name == "written" and "exclusive" not in was.flags
        if new.order < old.order and not copied and "partial" not in was.flags:
            yield f"{name}: {where}: order {old.order} before: {page}"


def wrongs(layout: Layout) -> list[str]:
    """Return lines in which the program itself says that something is wrong."""
    return [
        f"{name}: {line}"
        for name, lines in (("layout", layout.built), *layout.stages.items())
        for line in lines
        if re.search(r"CONTENTS|MIGRATION|GONE|FAILED|TOO MANY|NO STATE", line)
        or re.search(r"lost [1-9]|nr_isolated_\w+ [+-][1-9]", line)
    ]


def pages_moved(layout: Layout) -> int:
    """Return how many pages there were after the first move."""
    return len(parse_stage(layout.stages.get("there", ())).pages)


def contiguous(layout: Layout) -> int:
    """Return how many pages contiguous PTEs mapped after the first move."""
    pages = parse_stage(layout.stages.get("there", ())).pages.values()
    return sum("cont" in page.pte.split(",") for page in pages)


def moved_together(layout: Layout) -> int:
    """Return how often several large folios were seen unmapped at a time."""
    found = (_PAUSED.match(line) for lines in layout.stages.values() for line in lines)
    return sum(int(match[1]) > 1 for match in found if match)


def _difference(name: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    if list(old) == list(new):
        return []
    diff = difflib.unified_diff(old, new, "vanilla", "ours", lineterm="", n=_CONTEXT)
    return _shortened([f"{name}: {line}" for line in diff])


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"... and {more} lines more"] if more > 0 else lines
