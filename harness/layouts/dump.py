"""Random layouts of memory after their move by two kernels: parsed, and compared.

Where our kernel is meant to differ from vanilla, a rule in _Rules or _keep_locks() says so;
nothing else may.
"""

import base64
import difflib
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

_PAGES = re.compile(
    r"(?P<first>[0-9a-f]+)\+(?P<number>[0-9a-f]+) (?P<pte>\S+)"
    r"(?: folio (?P<folio>\d+)\.(?P<index>\d+) order (?P<order>\d+) node (?P<node>-?\d+)"
    r" map (?P<map>-?\d+) large (?P<large>-?\d+) entire (?P<entire>-?\d+)"
    r" pages (?P<pages>[0-9a-f]+) (?P<flags>\S+))?(?P<rest>.*)"
)
_LAYOUT = re.compile(r"^layout (\d+)\n(.*?)^end \1$", re.MULTILINE | re.DOTALL)
_STAGE = re.compile(r"^stage (.*)\n", re.MULTILINE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LABELS = frozenset(("partial", "queued"))
_LOCKED = frozenset(("mlocked", "unevictable"))
_LOCKED_COUNTERS = re.compile(r"(^counters.*?) nr_mlock [+-]\d+")
_HUGE_SUMS = re.compile(r" AnonHugePages \d+| nr_anon_transparent_hugepages [+-]\d+")
_MAPPING = re.compile(r" smaps ([0-9a-f]+)\+([0-9a-f]+):")
_LOCKED_MAPPING = re.compile(r" VmFlags:.* lo( |$)")
_REFERENCED = re.compile(r"(?<= Referenced )\d+")
_LAZY = re.compile(r" LazyFree \d+")
_SUMS = re.compile(r"counters | rss | smaps | pagemap |p\d wrote ")
# Of a whole folio, or a consequence of how large it is when it is written to.
_OF_FOLIO = _LABELS | _LOCKED | {"shared", "referenced", "active"}
_OF_COPIES = _OF_FOLIO | {"fdirty", "swapbacked", "workingset", "idle"}
_AGE = frozenset(("referenced", "active"))
_PIN = re.compile(r"p\d+ pin ")
_HOLD = re.compile(r"^p\d hold ")
_MOVE = re.compile(r"move process (\d+) ")
_NOT_MOVED = re.compile(r" \d+ of \d+,")
_CLEARED = re.compile(r"p\d clear_soft_dirty ")  # "differ" that clears it has this line, too
_REMAPPED = re.compile(r"p\d move .* = 0$")  # mremap() tells soft-dirty of what it moves
_SHARED = re.compile(r"p\d (fork|differ) ")
_WRITTEN = re.compile(r"p(\d) (?:write|differ) ([0-9a-f]+)\+([0-9a-f]+) = 0$")
_FREED = re.compile(r"p(\d) free ([0-9a-f]+)\+([0-9a-f]+) = 0$")
_RUN = re.compile(r" ([0-9a-f]+)\+([0-9a-f]+):(-?[0-9a-f]+)")
_PAUSED = re.compile(r"paused: .*, (\d+) large folios")
_NOT_STORED = "-1000"  # what migrate_layouts wrote into a status before the call
_BUSY = "-16"
_REFERENCES = re.compile(r" refs ([+-]\d+)")
_WRONG = re.compile(
    r"CONTENTS|MIGRATION|GONE|FAILED|TOO MANY|NO STATE|lost [1-9]|nr_isolated_\w+ [+-][1-9]"
)
_KB = 4  # a page
_CONTEXT = 1
_SHOWN = 40


Key = tuple[int, int]
"""The number of a process, and that of a page in its arena."""


@dataclass(frozen=True)
class Layout:
    """The layout of a seed, and the lines of each stage."""

    seed: int
    built: tuple[str, ...]
    stages: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Finding:
    """Mistakes in a layout, and mere differences; false if there is neither."""

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

    def __str__(self) -> str:
        """Return it as the dump has it."""
        return (
            f"folio {self.number}.{self.index} order {self.order} large {self.large} "
            f"entire {self.entire} pages {self.mapped}"
        )


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

    @property
    def referenced(self) -> bool:
        """Whether smaps counts it as such, be it for page tables or for the LRU's age."""
        young = "young" in self.pte.split(",") or "referenced" in self.flags
        return young and self.folio is not None

    @property
    def by_pmd(self) -> bool:
        """Whether a PMD maps it."""
        return self.pte.startswith("pmd,")

    def __str__(self) -> str:
        """Return the page as one line, with what the comparison left of it."""
        folio, words = self.folio or "", ",".join(sorted(self.flags))
        return f"{self.pte} node {self.node} map {self.mapcount} {folio} {words}{self.rest}"


@dataclass
class Stage:
    """The pages of a stage, by process and page number, and all other lines."""

    pages: dict[Key, Page] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def keys(self, flag: str) -> Set[Key]:
        """Return the pages with a flag."""
        return {key for key, page in self.pages.items() if flag in page.flags}


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
    for seed, body in _LAYOUT.findall(text):
        built, *stages = _STAGE.split(body)
        printed = [tuple(lines.splitlines()) for lines in stages[1::2]]
        whole = dict(zip(stages[::2], printed, strict=True))
        layouts[int(seed)] = Layout(int(seed), tuple(built.splitlines()), whole)
    for seed in re.findall(r"^layout (\d+)$", text, re.MULTILINE):
        if int(seed) not in layouts:
            raise ValueError(f"layout {seed} has no end")
    return layouts


def text_of(layouts: Iterable[Layout]) -> str:
    """Return layouts as `migrate_layouts` prints them."""
    output = []
    for layout in layouts:
        output += [f"layout {layout.seed}", *layout.built]
        for name, lines in layout.stages.items():
            output += [f"stage {name}", *lines]
        output.append(f"end {layout.seed}\n")
    return "\n".join(output)


def parse_stage(lines: Iterable[str]) -> Stage:
    """Return the pages of a stage one by one."""
    stage = Stage()
    process = 0
    for line in lines:
        if match := _PAGES.fullmatch(line):
            first = int(match["first"], 16)
            for offset in range(int(match["number"], 16)):
                stage.pages[process, first + offset] = _page(match, offset)
        else:
            if line.startswith("process "):
                process = int(line.removeprefix("process "))
            stage.lines.append(line)
    return stage


def _page(match: re.Match[str], offset: int) -> Page:
    """Return one of the pages of a line."""
    if match["folio"] is None:
        return Page(match["pte"], rest=match["rest"])
    order = int(match["order"])
    # Small folios in one line were first seen one after the other.
    further, inside = (0, offset) if order else (offset, 0)
    return Page(
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


def judge(ours: Layout, vanilla: Layout | None = None, live: bool = False) -> Finding:
    """Return what is wrong with a layout of ours, and how it differs from vanilla's.

    `live` tells that ours may have copied folios while they were mapped.
    """
    wrong, different = wrongs(ours), unlike_before(ours)
    if vanilla:
        for name in vanilla.stages.keys() & ours.stages.keys():
            old, new = (
                [line for line in layout.stages[name] if line.startswith(" contents ")]
                for layout in (vanilla, ours)
            )
            wrong += _difference(f"{name}: CONTENTS", old, new)
        different += compare(vanilla, ours, live)
    return Finding(wrong, different)


def compare(vanilla: Layout, ours: Layout, live: bool = False) -> list[str]:
    """Return how two kernels differ in one layout, in words; nothing if they do not."""
    if wrong := _difference("layout", vanilla.built, ours.built):
        return wrong
    if list(vanilla.stages) != list(ours.stages):
        return [f"stages: {', '.join(vanilla.stages)}; ours: {', '.join(ours.stages)}"]
    rules = _Rules.of(vanilla, ours, live)
    before = parse_stage(ours.stages.get("before", ()))
    pinned = any(_PIN.match(line) for line in ours.built)
    locked = parse_stage(vanilla.stages.get("before", ())).keys("mlocked")
    for name in vanilla.stages:
        if vanilla.stages[name] == ours.stages[name]:
            continue
        old, new = (_without_age(parse_stage(layout.stages[name])) for layout in (vanilla, ours))
        moved = name != "before" or pinned
        if moved:
            written = rules.shared if name == "written" else frozenset()
            old, new = _keep_locks(old, new, before if name != "before" else Stage(), written)
        if locked != before.keys("mlocked"):
            # Counters are compared with those "before", which a pin has changed already.
            old, new = (
                replace(stage, lines=[_LOCKED_COUNTERS.sub(r"\1", line) for line in stage.lines])
                for stage in (old, new)
            )
        if rules.cleared and name != "before":
            old = _see_writes(old, new, name, rules.remapped)
        old, new = _stored(old, new)
        lines = (list(rules.compared(name, moved, stage)) for stage in (old, new))
        wrong += _difference(name, *lines)
    return wrong


def changes(old: Layout, new: Layout) -> list[str]:
    """Return how a layout differs from another one of the same kernel: nothing is forgiven."""
    changed = _difference("layout", old.built, new.built)
    for name in dict.fromkeys((*old.stages, *new.stages)):
        changed += _difference(name, old.stages.get(name, ()), new.stages.get(name, ()))
    return changed


@dataclass(frozen=True)
class _Rules:
    """Parts of two layouts that are not compared.

    `split` are the pages of folios that either splits on the way back. Vanilla marks every
    large anonymous folio that it moves as partially mapped, and queues it; what is marked
    splits when it moves again. Only ours sees that a folio lost mappings while unmapped.

    `copied` are pages without an exclusive owner that were written to while others were still
    unmapped. Ours holds what it has moved until the batch is done, so that a write copies it;
    vanilla does not, and the last owner writes in place.

    `freed` are those that MADV_FREE named meanwhile. It passes over what is not on the LRU,
    where ours puts what it has moved when the batch is done, and vanilla at once.
    """

    split: Set[Key]
    copied: Set[Key]
    freed: Set[Key]
    shared: Set[Key]
    zeros: Set[Key]
    huge: bool
    bound: bool
    live: bool
    cleared: bool
    remapped: bool

    @classmethod
    def of(cls, vanilla: Layout, ours: Layout, live: bool) -> "_Rules":
        before, there, back = (
            parse_stage(ours.stages.get(name, ())) for name in ("before", "there", "back")
        )
        split: Set[Key] = frozenset()
        if "back" in ours.stages:
            marked = parse_stage(vanilla.stages.get("there", ())).keys("partial")
            split = marked | there.keys("partial")
        printed = [line for lines in ours.stages.values() for line in lines]
        remapped = any(_REMAPPED.match(line) for line in printed)
        copied = set(_named(_WRITTEN, printed)) & before.keys("anon")
        freed = set(_named(_FREED, printed))
        if not any(_SHARED.match(line) for line in printed):
            copied -= before.keys("exclusive")
        if remapped:
            elsewhere = there.keys("anon") - before.pages.keys()
            copied, freed = (some and some | elsewhere for some in (copied, freed))
        small = {key for key, page in back.pages.items() if page.folio and not page.folio.order}
        return cls(
            split=split,
            copied=copied,
            freed=freed,
            # The last owner of a small page that was shared writes in place unless there
            # is another reference, as the lists of each CPU do. How full these are depends
            # on the number of folios: it is another one where vanilla has split some.
            shared=back.keys("shared") & small if split else frozenset(),
            zeros=split & there.keys("zero"),
            huge=any(key in there.pages and there.pages[key].by_pmd for key in split),
            bound=any(line.startswith("mbind ") for line in printed),
            live=live,
            # Among a stage's lines is only what happens while folios are unmapped.
            cleared=any(_CLEARED.match(line) for line in printed),
            remapped=remapped,
        )

    def compared(self, name: str, moved: bool, stage: Stage) -> Iterator[str]:
        """Return a stage as the lines that both kernels must have.

        `moved` tells that pages may have been: a pin moves them out of ZONE_MOVABLE.
        """
        late = bool(self.split) and name in ("back", "written")
        lines: Iterable[str] = stage.lines
        if late:
            lines = self._late_lines(lines)
        elif moved:
            # The results of the move back are among the lines of "there".
            lines = _results_without(lines, self.split)
        if self.cleared and name == "written":
            lines = map(_without_soft, lines)
        if self.freed:
            lines = (_LAZY.sub("", line) for line in lines)
        # A folio that is copied while it is mapped is never unmapped beside others.
        yield from (line for line in lines if not (self.live and _PAUSED.match(line)))
        for (process, number), page in sorted(stage.pages.items()):
            if not (late and (process, number) in self.zeros):
                shown = self._page(name, late, stage, (process, number), page)
                if moved:
                    shown = replace(shown, flags=shown.flags - _LABELS)
                yield f"process {process} page {number:x}: {shown}"

    def _late_lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Return lines after a split by vanilla, without what depends on it."""
        for line in lines:
            # A split gives pages of zeros back: sums over them are not compared, either.
            if self.zeros and _SUMS.match(line):
                continue
            # /proc sums up huge pages, and tells exclusive ones, with PMDs in mind.
            if self.huge and line.startswith(" pagemap "):
                continue
            kept = _HUGE_SUMS.sub("", line) if self.huge else line
            yield _LOCKED_COUNTERS.sub(r"\1", kept)

    def _page(self, name: str, late: bool, stage: Stage, key: Key, page: Page) -> Page:
        """Return a page with what is compared of it."""
        # The LRU's idea of a folio's age depends on lists of each CPU and on how many folios
        # are in them. The words of page tables on it are compared.
        flags, pte, folio, node = page.flags - _AGE, page.pte, page.folio, page.node
        bits = pte.split(",")
        if self.live and "fdirty" in flags and "uffd" in bits:
            # A live copy leaves the dirty bit to the folio. A PTE gets it back with the
            # write bit only, and so not if userfaultfd protects the page.
            pte = ",".join(bit for bit in bits if bit != "dirty")
        by_chance = name == "written" and key in self.shared
        if key in self.copied:
            by_chance, node = True, -1
        if by_chance:
            flags -= _OF_COPIES
        if key in self.freed:
            flags -= {"swapbacked"}
        if late and key in self.split:
            # Small folios are mlocked where a part of a large one would not be.
            if page.by_pmd and folio:
                # All pages below a PMD are exclusive if the first one is.
                first = stage.pages.get((key[0], key[1] - folio.index), page)
                flags |= first.flags & {"exclusive"}
            # Where vanilla writes in place ours may copy, or the other way round.
            flags -= _OF_COPIES if name == "written" else _OF_FOLIO
            pte, folio = pte.removeprefix("pmd,"), None
        elif late and folio:
            folio = replace(folio, number=0)  # the split ones have shifted them
        if self.bound and name == "written" and (by_chance or key in self.split):
            node = -1  # a copy is where mbind(2) wants it
        return replace(page, flags=flags, pte=pte, folio=folio, node=node)


def _each_page(line: str) -> Iterator[tuple[int, str]]:
    """Return the number of each page, and what a line says of it in runs of equal ones."""
    for first, number, value in _RUN.findall(line):
        for offset in range(int(number, 16)):
            yield int(first, 16) + offset, value


def _results_without(lines: Iterable[str], keys: Set[Key]) -> Iterator[str]:
    """Return lines whose results of move_pages(2) are those of other pages, one by one.

    How many pages did not move is left out as well: vanilla counts parts of what it splits.
    """
    process = 0
    for line in lines:
        if match := _MOVE.match(line):
            process = int(match[1])
            yield _NOT_MOVED.sub("", line) if keys else line
        elif line.startswith(" status"):
            pages = _each_page(line)
            kept = (f"{page:x}:{value}" for page, value in pages if (process, page) not in keys)
            yield " ".join([" status", *kept])
        else:
            yield line


def _stored(old: Stage, new: Stage) -> tuple[Stage, Stage]:
    """Forgive vanilla that it stores no status for a batch of which something did not move.

    Nor where ours is, if it finds a page busy: its large folio is among those that are to move
    already. A write while others were unmapped has made one folio of what was named page by page.
    """
    if len(old.lines) != len(new.lines):
        return old, new
    pairs = [_without_unstored(*pair) for pair in zip(old.lines, new.lines, strict=True)]
    ours = replace(new, lines=[line for _, line in pairs])
    return replace(old, lines=[line for line, _ in pairs]), ours


def _without_unstored(old: str, new: str) -> tuple[str, str]:
    """Return two lines of results of move_pages(2), if they are, with what vanilla stored."""
    if not all(line.startswith(" status") for line in (old, new)):
        return old, new
    moved = {page for page, value in _each_page(new) if not value.startswith("-")}
    unstored = {
        page
        for page, value in _each_page(old)
        if value == _NOT_STORED or (value == _BUSY and page in moved)
    }

    def stored(line: str) -> str:
        pages = ((page, value) for page, value in _each_page(line) if page not in unstored)
        return " ".join([" status", *(f"{page:x}+1:{value}" for page, value in pages)])

    return stored(old), stored(new)


def _without_soft(line: str) -> str:
    """Return a line without what pagemap says of soft-dirty, in its lowest bit: PTEs have it."""
    pages = (f"{page:x}:{int(value, 16) & ~1:x}" for page, value in _each_page(line))
    return " ".join([" pagemap", *pages]) if line.startswith(" pagemap") else line


def _named(operation: re.Pattern[str], lines: Iterable[str]) -> Iterator[Key]:
    """Return the pages that an operation named while others were unmapped."""
    for match in filter(None, map(operation.match, lines)):
        first, number = (int(match[group], 16) for group in (2, 3))
        yield from ((int(match[1]), page) for page in range(first, first + number))


def _see_writes(old: Stage, new: Stage, name: str, remapped: bool) -> Stage:
    """Forgive vanilla the writes that it misses where soft-dirty was cleared of unmapped pages.

    Ours leaves such a page read-only, so that the next write faults, and is seen. A dirty PMD
    becomes soft-dirty when it is mapped again, in both, and so does what mremap() moves
    (`remapped`: it did).
    """
    pages = dict(old.pages)
    for key, page in new.pages.items():
        if theirs := pages.get(key):
            their_bits, our_bits = (set(side.pte.split(",")) - {"-"} for side in (theirs, page))
            if name == "written":
                seen = our_bits == their_bits | {"soft"}
            else:
                clean = remapped or "soft" not in our_bits or "pmd" in our_bits
                seen = clean and their_bits == our_bits | {"write"}
            if seen:
                pages[key] = replace(theirs, pte=page.pte)
    return replace(old, pages=pages)


def _keep_locks(old: Stage, new: Stage, before: Stage, but: Set[Key]) -> tuple[Stage, Stage]:
    """Forgive vanilla that it loses the mlocked flag of large folios that PTEs map.

    Ours may keep it, or set it where the folio is in a locked mapping now, as both do for small
    folios. A page that was not mapped before the move has the flags of its folio, if it is
    mapped now.
    """
    mappings = (pages for line, pages in _mappings(new.lines) if _LOCKED_MAPPING.search(line))
    in_locked_mapping: Set[Key] = frozenset().union(*mappings)
    locked: dict[int, Set[str]] = {}
    for key, page in new.pages.items():
        was = before.pages.get(key)
        if page.folio and was and was.flags & _LOCKED:
            locked[page.folio.number] = was.flags
    large = {
        page.folio.number
        for key, page in new.pages.items()
        if page.folio and page.folio.order and key in in_locked_mapping
    }
    pages, lines = dict(old.pages), [old.lines, new.lines]
    for key, page in new.pages.items():
        theirs, was = pages.get(key), before.pages.get(key)
        if theirs is None or key in but:
            continue
        number = page.folio.number if page.folio else -1
        may = was.flags if was and was.folio else locked.get(number, frozenset())
        kept = (page.flags - theirs.flags) & (_LOCKED if number in large else may & _LOCKED)
        if kept and not theirs.flags & _LOCKED - page.flags:
            pages[key] = replace(theirs, flags=theirs.flags | kept)
            lines = [[_LOCKED_COUNTERS.sub(r"\1", line) for line in part] for part in lines]
    return Stage(pages, lines[0]), Stage(new.pages, lines[1])


def _mappings(lines: Iterable[str]) -> Iterator[tuple[str, Set[Key]]]:
    """Return each line with the pages that it sums up: none, but in those from smaps."""
    process = 0
    for line in lines:
        pages: Set[Key] = frozenset()
        if line.startswith("process "):
            process = int(line.removeprefix("process "))
        elif match := _MAPPING.match(line):
            first, number = (int(digits, 16) for digits in match.groups())
            pages = {(process, page) for page in range(first, first + number)}
        yield line, pages


def _without_age(stage: Stage) -> Stage:
    """Return a stage whose sums from smaps leave out the references that its pages tell of."""

    def left(line: str, pages: Set[Key]) -> str:
        told = sum(key in stage.pages and stage.pages[key].referenced for key in pages)
        kept = _REFERENCED.sub(lambda match: str(int(match[0]) - _KB * told), line)
        return kept.replace(" Referenced 0", "")

    return replace(stage, lines=[left(*pair) for pair in _mappings(stage.lines)])


_Rule = Callable[[Page, Folio, Page, Folio], str]
"""Judges a page that belongs to a folio at two stages: the page and the folio, then and now."""


def unlike_before(layout: Layout) -> list[str]:
    """Return what a move of ours changed that none may change: no other kernel is needed."""
    stages = {name: parse_stage(lines) for name, lines in layout.stages.items()}
    rules: list[_Rule] = [_label, _mark]
    if not any(_HOLD.search(line) for lines in layout.stages.values() for line in lines):
        rules.append(_reference)
    wrong = []
    moves: list[tuple[str, str, list[_Rule]]] = [
        ("before", "there", rules), ("before", "back", rules),
        ("there", "back", [_size]), ("back", "written", [_size_when_written]),
    ]  # fmt: skip
    for then, now, judges in moves:
        if then not in stages or now not in stages:
            continue
        for (process, number), page in stages[now].pages.items():
            was = stages[then].pages.get((process, number))
            if was and was.folio and page.folio:
                where = f"{now}: process {process} page {number:x}"
                words = (judge(was, was.folio, page, page.folio) for judge in judges)
                wrong += [f"{where}: {word}: {page}" for word in words if word]
    return _shortened(wrong)


def _label(was: Page, old: Folio, page: Page, new: Folio) -> str:
    """Tell of a mark, or a place in the queue, that changed with nothing unmapped meanwhile.

    A folio in the swap cache that has left the queue does not return to it, in either kernel.
    """
    changed = (was.flags ^ page.flags) & _LABELS
    if "swapcache" in page.flags:
        changed -= was.flags & {"queued"}
    same = (old.order, old.large, old.mapped) == (new.order, new.large, new.mapped)
    words = (f"{'not ' if label in was.flags else ''}{label}" for label in sorted(changed))
    return f"now {', '.join(words)}" if changed and same else ""


def _mark(_: Page, old: Folio, page: Page, new: Folio) -> str:
    """Tell of a folio that lost mappings meanwhile, and has no mark of it."""
    whole = new.entire or new.large >= min(old.large, 1 << new.order)
    marked = "partial" in page.flags or "anon" not in page.flags or old.order != new.order
    return "" if whole or marked else "mapped in part, and not marked"


def _reference(was: Page, old: Folio, page: Page, new: Folio) -> str:
    """Tell of references that nothing explains."""
    more = old.order == new.order and page.references > was.references
    return f"{page.references} more references" if more else ""


def _size(was: Page, old: Folio, _: Page, new: Folio) -> str:
    """Tell of a folio that is smaller, though it was not marked."""
    split = new.order < old.order and "partial" not in was.flags
    return f"order {old.order} before" if split else ""


def _size_when_written(was: Page, old: Folio, page: Page, new: Folio) -> str:
    """Tell of the same; but what is shared is copied when it is written to."""
    return _size(was, old, page, new) if "exclusive" in was.flags else ""


def wrongs(layout: Layout) -> list[str]:
    """Return lines in which the program itself says that something is wrong."""
    return [
        f"{name}: {line}"
        for name, lines in (("layout", layout.built), *layout.stages.items())
        for line in lines
        if _WRONG.search(line)
    ]


def contiguous(layout: Layout) -> int:
    """Return how many pages contiguous PTEs mapped after the first move."""
    pages = parse_stage(layout.stages.get("there", ())).pages.values()
    return sum("cont" in page.pte.split(",") for page in pages)


def moved_together(layout: Layout) -> int:
    """Return how often several large folios were seen unmapped at a time."""
    pauses = (_PAUSED.match(line) for lines in layout.stages.values() for line in lines)
    return sum(int(match[1]) > 1 for match in pauses if match)


def _difference(name: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    if list(old) == list(new):
        return []
    diff = difflib.unified_diff(old, new, "vanilla", "ours", lineterm="", n=_CONTEXT)
    return _shortened([f"{name}: {line}" for line in diff])


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"... and {more} lines more"] if more > 0 else lines
