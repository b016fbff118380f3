"""Ask questions about ten annual reports that are made from a seed, and read their statements back.

    python -m benchmarks.filings [--half choosing|judging] [--seed N] [--keep FOLDER] [--verbose] [--json]

Each report has a layout of its own: ruled or unruled tables, years or quarters as columns, the latest year
first or last, the unit above the table or in its head, negatives in parentheses or with a sign, running titles,
one or two columns of text. Names and numbers are random. Sixty questions name a company, a period and a thing,
often in other words than the report; thirty more ask what the same pages do not say. Half of the questions is
for choosing (only these are printed by `--verbose`), the other half for judging.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4, LETTER
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    KeepTogether,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)  # fmt: skip

from whence.surfaces.python.engine import Engine

YEARS = (2023, 2022, 2021)


class Layout(msgspec.Struct, frozen=True):
    """How a report looks."""

    years: str = "{}"
    """A column's head; `{}` is the year."""
    unit: str = "(in millions of dollars)"
    unit_in_head: bool = False
    oldest_first: bool = False
    ruled: str = ""
    """`grid`, `rows`, `bands`, or nothing."""
    signs: bool = False
    """Whether a dollar sign stands apart from the first and last numbers."""
    minus: str = "({})"
    font: str = "Helvetica"
    page: tuple[float, float] = A4
    columns: int = 1
    running: str = ""
    title: str = ""
    """Title in the file's properties."""
    head: str = ""
    """A line above the years that spans them."""
    notes: bool = False
    """Whether a column refers to the notes."""
    caps: bool = False
    labels: int = 0
    """Which of the words for each line item the report has."""


LAYOUTS = (
    Layout(running="{name} | Annual Report 2023", signs=True),
    Layout("FY{}", "EUR million", True, ruled="grid", minus="-{}", font="Times-Roman", labels=1),
    Layout(
        "{}", "(In thousands, except per share data)", head="Year ended December 31,", signs=True,
        font="Times-Roman", page=LETTER, running="Table of Contents", title="0001193125-24-0{n}", caps=True,
    ),
    Layout("{}", "£m", True, ruled="rows", notes=True, columns=2, labels=2, running="{name} plc"),
    Layout("{}", "CHF in millions", oldest_first=True, ruled="bands", minus="\u2013{}", labels=1),
    Layout("31 March {}", "Rs. in crore", head="As at and for the year ended", ruled="grid", notes=True, labels=2),
    Layout("Fiscal {}", "(dollars in thousands)", page=LETTER, running="FORM 10-K", labels=0, title="(anonymous)"),
    Layout("Dec. 31, {}", "Amounts in USD millions", ruled="rows", font="Courier", labels=1, signs=True),
    Layout("{}", "SEK m", True, columns=2, minus="\u2212{}", ruled="bands", labels=2, caps=True),
    Layout("FY {}", "(Millions of yen)", oldest_first=True, minus="\u2013{}", labels=1, notes=True),
)  # fmt: skip

_NAMES = (
    "Halvorsen Marine", "Brightwater Foods", "Calder Ridge", "Pemberton Tools", "Altenmatt", "Devika Cement",
    "Osprey Logistics", "Quillon Semiconductor", "Nordlund Paper", "Tsubame Optics",
)  # fmt: skip

#: Words for each line item: those of reports first, those of questions last.
_INCOME = (
    ("Revenue", "Net sales", "Turnover", "sales"),
    ("Cost of revenue", "Cost of sales", "Cost of sales", "cost of goods sold"),
    ("Research and development", "Research and development expenses", "Development costs", "R&D spending"),
    ("Operating income", "Operating profit", "Operating profit", "operating profit"),
    ("Interest expense", "Interest expense", "Finance costs", "interest expense"),
    ("Net income (loss)", "Profit for the year", "Profit for the year", "net income"),
)  # fmt: skip
_BALANCE = (
    ("Cash and cash equivalents", "Cash and cash equivalents", "Cash at bank and in hand", "cash"),
    ("Inventories", "Inventories", "Stocks", "inventory"),
    ("Total assets", "Total assets", "Total assets", "total assets"),
    ("Long-term debt", "Non-current borrowings", "Loans due after one year", "long-term debt"),
    ("Total shareholders' equity", "Total equity", "Shareholders' funds", "total equity"),
)
_CASH = (
    ("Net cash provided by operating activities", "Cash flow from operating activities",
     "Net cash from operating activities", "operating cash flow"),
    ("Purchases of property and equipment", "Capital expenditure", "Purchase of tangible assets", "capex"),
    ("Dividends paid", "Dividends paid", "Dividends paid to shareholders", "dividends"),
    ("Net increase (decrease) in cash", "Net change in cash", "Net change in cash", "net change in cash"),
)  # fmt: skip
_SEGMENTS = ("Consumer", "Industrial", "Services", "Europe", "Asia Pacific", "Public Sector")
_ABSENT = (
    "pension contributions",
    "lease liabilities",
    "warranty provisions",
    "stock options granted",
)


class Row(msgspec.Struct, frozen=True):
    """Numbers of one line of a statement as printed, by the head of their column."""

    statement: str
    label: str
    asked: str
    values: dict[str, str]
    unit: str


class Question(msgspec.Struct, frozen=True):
    """A question and the number that answers it; none for one that the report does not answer."""

    text: str
    document: str
    number: str = ""
    mark: str = ""
    """Where its page is noted."""


class Report(msgspec.Struct):
    """A made report with what is asked about it."""

    name: str
    file: str
    rows: list[Row]
    questions: list[Question]
    pages: dict[str, int]
    """Page of each marked place, from 1."""


class _Mark(Flowable):
    """Notes the page that a place of the report comes to stand on."""

    def __init__(self, key: str, pages: dict[str, int]) -> None:
        super().__init__()
        self.key, self.pages = key, pages

    def wrap(self, *_: float) -> tuple[float, float]:
        return 0, 0

    def draw(self) -> None:
        self.pages[self.key] = self.canv.getPageNumber()


def _number(value: int, layout: Layout) -> str:
    text = f"{abs(value):,}"
    return layout.minus.format(text) if value < 0 else text


class _Writer:
    """Makes the story of one report."""

    def __init__(self, chance: random.Random, layout: Layout, name: str, file: str) -> None:
        self.chance, self.layout, self.name = chance, layout, name
        self.report = Report(name, file, [], [], {})
        bold = {"Times-Roman": "Times-Bold"}.get(layout.font, f"{layout.font}-Bold")
        self.bold = bold
        self.text = ParagraphStyle(
            "text", fontName=layout.font, fontSize=9.5, leading=13, spaceAfter=7
        )
        self.big = ParagraphStyle(
            "big", fontName=bold, fontSize=15, leading=20, spaceBefore=8, spaceAfter=8
        )
        self.small = ParagraphStyle(
            "small", fontName=bold, fontSize=11, leading=15, spaceBefore=6, spaceAfter=4
        )
        self.story: list[Flowable] = []

    def mark(self, key: str) -> _Mark:
        return _Mark(key, self.report.pages)

    def heading(self, text: str, *, big: bool = True) -> None:
        self.story.append(
            Paragraph(
                text.upper() if self.layout.caps and big else text, self.big if big else self.small
            )
        )

    def prose(self, *texts: str, key: str = "") -> None:
        if key:
            # Marked behind the paragraph, which is kept in one piece.
            self.story.append(
                KeepTogether([*(Paragraph(one, self.text) for one in texts), self.mark(key)])
            )
        else:
            self.story += [Paragraph(one, self.text) for one in texts]

    def table(
        self, title: str, heads: list[str], rows: list[tuple[str, str, list[int]]], over: str = ""
    ) -> None:
        """Add a statement: its title, unit, heads and rows of label, asked word and values."""
        layout = self.layout
        first = [layout.unit if layout.unit_in_head else ""] + (["Note"] if layout.notes else [])
        lines: list[list[str]] = []
        if over:
            lines.append([""] * len(first) + [over] + [""] * (len(heads) - 1))
        lines.append([*first, *heads])
        for place, (label, asked, values) in enumerate(rows):
            printed = [_number(value, layout) for value in values]
            self.report.rows.append(
                Row(title, label, asked, dict(zip(heads, printed, strict=True)), layout.unit)
            )
            edge = layout.signs and place in (0, len(rows) - 1)
            cells = [f"$ {one}" if edge else one for one in printed]
            note = [str(place + 3) if place % 2 else ""] if layout.notes else []
            lines.append([label, *note, *cells])
        width = self.width
        label_width = width * (0.38 if len(heads) > 3 else 0.5)
        note_width = 32 if layout.notes else 0
        rest = (width - label_width - note_width) / len(heads)
        widths = [label_width, *([note_width] if layout.notes else []), *[rest] * len(heads)]
        size = 8.5 if layout.columns == 1 else 6.5
        style: list[Any] = [
            ("LEFTPADDING", (0, 0), (-1, -1), 2), ("RIGHTPADDING", (0, 0), (-1, -1), 3),
            ("FONT", (0, 0), (-1, -1), layout.font, size), ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
            ("FONT", (0, 0), (-1, 1 if over else 0), self.bold, size),
            ("FONT", (0, len(lines) - 1), (-1, -1), self.bold, size),
            ("TOPPADDING", (0, 0), (-1, -1), 2), ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
            ("LINEABOVE", (len(first), -1), (-1, -1), 0.5, colors.black),
        ]  # fmt: skip
        if over:
            style += [
                ("SPAN", (len(first), 0), (-1, 0)),
                ("ALIGN", (len(first), 0), (-1, 0), "CENTER"),
            ]
        if layout.ruled == "grid":
            style.append(("GRID", (0, 0), (-1, -1), 0.4, colors.grey))
        elif layout.ruled == "rows":
            style.append(("LINEBELOW", (0, 0), (-1, -1), 0.3, colors.grey))
        elif layout.ruled == "bands":
            style.append(("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.whitesmoke, colors.white]))
        head: list[Flowable] = [Paragraph(title, self.big)]
        if not layout.unit_in_head:
            head.append(Paragraph(layout.unit, self.text))
        self.story.append(
            KeepTogether(
                [
                    *head,
                    Table(lines, widths, style=TableStyle(style)),
                    Spacer(0, 12),
                    self.mark(title),
                ]
            )
        )

    @property
    def width(self) -> float:
        whole = self.layout.page[0] - 120
        return whole if self.layout.columns == 1 else (whole - 18) / 2

    def build(self, path: Path) -> None:
        layout = self.layout
        whole, height = layout.page[0] - 120, layout.page[1] - 130
        frames = [
            Frame(60 + at * (self.width + 18), 60, self.width, height, 0, 0, 0, 0)
            for at in range(layout.columns)
        ]

        def running(canvas: Any, document: Any) -> None:
            canvas.setFont(layout.font, 8)
            if layout.running:
                canvas.drawString(60, layout.page[1] - 45, layout.running.format(name=self.name))
            canvas.drawCentredString(60 + whole / 2, 35, str(document.page))

        title = layout.title.format(n=self.chance.randint(10000, 99999))
        document = BaseDocTemplate(
            str(path), pagesize=layout.page, title=title or None, invariant=1
        )
        document.addPageTemplates([PageTemplate(frames=frames, onPage=running)])
        document.build(self.story)


_FILLER = (
    "Demand varied by region and by season, and we adjusted the use of our plants accordingly.",
    "Management reviews these estimates regularly and revises them as circumstances change.",
    "We depend on a limited number of suppliers, and an interruption could harm our results.",
    "Changes in laws and regulations may increase our costs or limit the sale of our products.",
    "Our information systems are exposed to attacks that may disrupt our operations.",
    "Competition in our markets is intense, and prices may fall faster than our costs.",
    "The board considers the going concern basis appropriate for these statements.",
    "Exchange rates affect the value of what we earn abroad; we hedge a part of it.",
)


def make(number: int, seed: int, folder: Path) -> Report:
    """Write one report to a folder and return what it says. Deterministic."""
    chance = random.Random(seed * 100 + number)
    layout, name = LAYOUTS[number], _NAMES[number]
    file = f"{name.split()[0].lower()}-report.pdf"
    one = _Writer(chance, layout, name, file)
    years = sorted(YEARS, reverse=not layout.oldest_first)
    heads = [layout.years.format(year) for year in years]

    def filler(count: int) -> list[str]:
        sizes = (chance.randint(4, 7) for _ in range(count * 2))
        return [" ".join(chance.sample(_FILLER, size)) for size in sizes]

    def values(low: int, high: int, negative: float = 0.0) -> list[int]:
        return [
            chance.randint(low, high) * (-1 if chance.random() < negative else 1) for _ in years
        ]

    facts = {
        "employees": f"{chance.randint(21, 890) * 100 + chance.randint(1, 99):,}",
        "growth": f"{chance.randint(11, 389) / 10}%",
        "plants": str(chance.randint(13, 97)),
        "buyback": f"{chance.randint(1000, 9999):,}",
    }
    one.heading(name)
    one.prose(f"Annual report for the fiscal year {YEARS[0]}", *filler(1))
    one.heading("Business")
    one.prose(*filler(2))
    one.prose(f"At the end of fiscal {YEARS[0]} we had {facts['employees']} full-time employees and operated"
              f" {facts['plants']} manufacturing sites.", key="people")  # fmt: skip
    one.story.append(PageBreak())
    one.heading("Risk factors")
    one.prose(*filler(5))
    one.story.append(PageBreak())
    one.heading("Management's discussion and analysis")
    income = _INCOME[0][layout.labels]
    one.prose(*filler(1))
    one.prose(f"{income} in the fourth quarter of {YEARS[0]} rose by {facts['growth']} compared with the same quarter"
              " of the prior year, helped by higher volumes.", key="growth")  # fmt: skip
    one.prose(
        f"During {YEARS[1]} we repurchased {facts['buyback']} thousand of our own shares.",
        *filler(1),
        key="buyback",
    )
    quarters = [f"Q{n} {YEARS[0]}" for n in (1, 2, 3, 4)]
    one.table("Quarterly results", quarters, [
        (income, _INCOME[0][3], [chance.randint(200, 4000) for _ in quarters]),
        (_INCOME[3][layout.labels], _INCOME[3][3], [chance.randint(10, 190) for _ in quarters]),
    ])  # fmt: skip
    one.story.append(PageBreak())
    for title, items, low, negative in (
        ("Consolidated statements of income", _INCOME, 900, 0.2),
        ("Consolidated balance sheets", _BALANCE, 2000, 0.0),
        ("Consolidated statements of cash flows", _CASH, 100, 0.5),
    ):
        rows = [(each[layout.labels], each[3], values(low, low * 30, negative if at > 2 or low == 100 else 0))
                for at, each in enumerate(items)]  # fmt: skip
        one.table(title, heads, rows, layout.head)
        one.prose("The accompanying notes are an integral part of these statements.")
        if number % 3:
            one.story.append(PageBreak())
        else:
            one.prose(*filler(2))
    one.heading("Notes to the financial statements")
    one.heading("1. Basis of preparation", big=False)
    one.prose(*filler(2))
    segments = chance.sample(_SEGMENTS, 3)
    one.table(
        "2. Segment information",
        heads,
        [(each, f"{_INCOME[0][3]} of the {each} segment", values(100, 9000)) for each in segments],
    )
    one.prose(*filler(2))
    one.build(folder / file)
    one.report.questions = list(_questions(chance, one.report, facts, income))
    return one.report


_BY_ROW = (
    "What was {name}'s {item} in {period}?",
    "How much {item} did {name} report for {period}?",
    "{name} {item} {period}",
    "What {item} does {name} show for {period}?",
)


def _periods(year: int) -> tuple[str, ...]:
    return (f"FY{year}", f"fiscal {year}", str(year), f"FY{year % 100}", f"fiscal year {year}")


def _questions(
    chance: random.Random, report: Report, facts: dict[str, str], income: str
) -> Iterator[Question]:
    name, file = report.name, report.file
    statements = (
        "Consolidated statements of income",
        "Consolidated balance sheets",
        "Consolidated statements of cash flows",
    )
    for title in (*statements, "2. Segment information"):
        row = chance.choice([one for one in report.rows if one.statement == title])
        head = chance.choice(list(row.values))
        year = next(each for each in YEARS if str(each) in head)
        item = chance.choice([row.asked, row.label.lower()]) if title in statements else row.asked
        text = chance.choice(_BY_ROW).format(
            name=name, item=item, period=chance.choice(_periods(year))
        )
        yield Question(text, file, row.values[head], title)
    row = chance.choice([one for one in report.rows if one.statement == "Quarterly results"])
    quarter = chance.choice((1, 2, 3, 4))
    period = chance.choice(
        (f"Q{quarter} {YEARS[0]}", f"{quarter}Q{YEARS[0] % 100}", f"Q{quarter} FY{YEARS[0]}")
    )
    text = chance.choice(_BY_ROW).format(name=name, item=row.asked, period=period)
    yield Question(text, file, row.values[f"Q{quarter} {YEARS[0]}"], "Quarterly results")
    prose = (
        (f"How many people did {name} employ at the end of FY{YEARS[0]}?", "employees", "people"),
        (f"What was the headcount of {name} in {YEARS[0]}?", "employees", "people"),
        (
            f"By what percentage did {name}'s {income.lower()} grow year on year in Q4 {YEARS[0]}?",
            "growth",
            "growth",
        ),
        (f"How many manufacturing sites does {name} have?", "plants", "people"),
        (f"How many shares did {name} buy back in {YEARS[1]}?", "buyback", "buyback"),
    )
    text, key, mark = chance.choice(prose)
    yield Question(text, file, facts[key], mark)
    # Beside these: what the same pages do not say.
    row = chance.choice([one for one in report.rows if one.statement in statements])
    yield Question(f"What was {name}'s {row.asked} in FY{chance.randint(2012, 2018)}?", file)
    yield Question(f"How much did {name} report for {chance.choice(_ABSENT)} in {YEARS[0]}?", file)
    yield Question(chance.choice((
        f"How many patents did {name} hold in {YEARS[0]}?", f"Who is the auditor of {name}?",
        f"When was {name} founded?", f"What share of {name}'s employees are women?",
    )), file)  # fmt: skip


def _is_kept(row: Row, head: str, text: str) -> bool:
    """Return whether a number stands in a row with its label, below its head, in a section with the unit."""
    start = text.find(f"\n\n{row.statement}")
    above, found_table, below = text[start:].partition("\n|")
    if start < 0 or not found_table or above.count("\n") > 6:
        return False
    lines = [*above.split("\n"), *f"|{below}".partition("\n\n")[0].split("\n")]
    table = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")
    ]
    found = [cells for cells in table if cells[0] == row.label]
    if not found or row.unit.strip("()") not in " ".join(lines):
        return False
    at = next((at for at, cell in enumerate(found[0]) if cell.lstrip("$ ") == row.values[head]), 0)
    return at > 0 and any(at < len(cells) and head in cells[at] for cells in table[:3])


async def measure(seed: int, folder: Path, home: Path, half: str) -> dict[str, Any]:
    """Make, index and ask; return the counts and what each question got."""
    reports = [make(number, seed, folder) for number in range(len(LAYOUTS))]
    counts: Counter[str] = Counter()
    records: list[dict[str, Any]] = []
    async with Engine(home=home) as engine:
        await engine.index([folder])
        for report in reports:
            text = (await engine.show(report.file)).text
            for row in report.rows:
                for head in row.values:
                    counts["numbers"] += 1
                    counts["in their row"] += _is_kept(row, head, text)
        everything = [(report, one) for report in reports for one in report.questions]
        for place, (report, one) in enumerate(everything):
            if half != "all" and (half == "choosing") != (place % 2 == 0):
                continue
            answer = await engine.ask(one.text)
            kind = "answerable" if one.number else "unanswerable"
            counts[kind] += 1
            record = {
                "question": one.text,
                "wanted": one.number,
                "answer": answer.text,
                "score": answer.score,
            }
            record["outcome"] = "refused"
            if not answer.found:
                counts[f"{kind} refused"] += 1
            elif not one.number:
                record["outcome"] = "answered"
            else:
                markers = [each.marker for each in answer.citations]
                first = answer.citations[
                    min(range(len(markers)), key=lambda at: answer.text.find(f"[{markers[at]}]"))
                ]
                marked = [first.quote[start:end] for start, end in first.highlights]
                page = first.location.page if first.location else None
                right = {
                    "document": first.document_id == one.document,
                    "page": first.document_id == one.document and page == report.pages[one.mark],
                    "number": one.number in answer.text,
                    "marked": any(one.number in each for each in marked[:1]),
                    "cell": any(
                        one.number == each.removeprefix("$").strip() for each in marked[:1]
                    ),
                }
                counts.update(key for key, is_right in right.items() if is_right)
                record |= right | {
                    "outcome": "right" if right["number"] and right["page"] else "wrong",
                    "page": page,
                }
            records.append(record)
    return {"counts": counts, "records": records}


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("all", "choosing", "judging"), default="all")
    parser.add_argument("--seed", type=int, default=1, help="seed of the reports and questions")
    parser.add_argument("--keep", type=Path, help="folder for the reports")
    parser.add_argument(
        "--verbose", action="store_true", help="print what was not right of the half for choosing"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    half = "choosing" if options.verbose else options.half
    with tempfile.TemporaryDirectory() as place:
        folder = options.keep or Path(place) / "reports"
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(measure(options.seed, folder, Path(place) / "home", half))
    if options.json:
        print(json.dumps(found))
        return
    counts = found["counts"]
    for one in found["records"] if options.verbose else ():
        if one["outcome"] != ("right" if one["wanted"] else "refused") or not one.get("cell", True):
            print(json.dumps(one, ensure_ascii=False, indent=1))
    print("| measure | share | of |\n|---|---|---|")
    for key in ("document", "page", "number", "marked", "cell", "answerable refused"):
        print(
            f"| {key} | {counts[key] / max(1, counts['answerable']):.0%} | {counts['answerable']} |"
        )
    print(
        f"| unanswerable refused | {counts['unanswerable refused'] / max(1, counts['unanswerable']):.0%} | {counts['unanswerable']} |"
    )
    print(
        f"| numbers in their row | {counts['in their row'] / counts['numbers']:.1%} | {counts['numbers']} |"
    )


if __name__ == "__main__":
    main()
