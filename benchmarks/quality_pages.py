"""Table and chart of `benchmarks.quality`."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.quality_measures import MODES, Measured

__all__ = ("chart", "table", "write_section")

_BEGIN, _END = "<!-- quality: begin -->", "<!-- quality: end -->"
_COLOURS = {
    "bm25": "#9aa5b1",
    "dense": "#5b8def",
    "hybrid": "#1f7a5c",
    "graph": "#c8742b",
}
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    ' font-family="system-ui, sans-serif" font-size="12"'
    ' aria-label="nDCG@10 of each search mode on each collection">'
)
_WIDTH, _BAR, _GAP, _LEFT, _TOP, _HEIGHT = 960, 15, 22, 44, 56, 260


def _modes(measured: Measured) -> list[str]:
    first = next(iter(measured.collections.values()))["modes"]
    return [mode for mode in MODES if mode in first]


def _mean(measured: Measured, mode: str, name: str) -> float:
    values = [one["modes"][mode][name] for one in measured.collections.values()]
    return float(sum(values) / len(values))


def table(measured: Measured) -> str:
    """Return the figures in Markdown."""
    modes = _modes(measured)
    lines = [
        "nDCG@10 / Recall@100 / MRR@10:",
        "",
        "| collection | " + " | ".join(modes) + " |",
        "|---|" + "---|" * len(modes),
    ]
    for name, one in measured.collections.items():
        cells = [
            "{ndcg@10:.3f} / {recall@100:.3f} / {mrr@10:.3f}".format(**one["modes"][mode])
            for mode in modes
        ]
        lines.append(f"| {name} ({one['documents']:,} / {one['queries']}) | {' | '.join(cells)} |")
    means = [
        " / ".join(
            f"{_mean(measured, mode, key):.3f}" for key in ("ndcg@10", "recall@100", "mrr@10")
        )
        for mode in modes
    ]
    lines += [f"| **mean** | {' | '.join(means)} |", "", *_facts(measured)]
    return "\n".join(lines) + "\n"


def _facts(measured: Measured) -> list[str]:
    facts = []
    if len(measured.collections) > 1:
        loo = sum(measured.leave_one_out.values()) / len(measured.leave_one_out)
        facts.append(
            f"- Weight of dense retrieval chosen on the other collections: mean nDCG@10 of hybrid {loo:.4f}"
            f" ({_mean(measured, 'hybrid', 'ndcg@10'):.4f} with the one in use)."
        )
    facts.append(
        f"- Threshold 0.5: {measured.kept:.1%} of answerable queries keep a hit,"
        f" {measured.emptied:.1%} of unanswerable ones get none."
    )
    for name, one in measured.collections.items():
        plain, walked = (one["modes"][mode]["all_gold@10"] for mode in ("hybrid", "graph"))
        if plain != walked:
            facts.append(
                f"- All relevant documents in the top ten of {name}: {plain:.3f},"
                f" with links between passages {walked:.3f}."
            )
    if measured.published is not None:
        facts.append(
            f"- SciFact with one float32 vector per document, as in published figures:"
            f" {measured.published:.4f} (published .6451)."
        )
    return facts + _reranking(measured)


def _reranking(measured: Measured) -> list[str]:
    rows = {n: one["rerank"] for n, one in measured.collections.items() if "rerank" in one}
    if not rows:
        return []
    lines = [
        "",
        "nDCG@10 before and after the local reranker reads the 60 candidates of a question, with the p of a paired",
        "randomization test; then the share of its score chosen on the seven other collections, and what that gains here.",
        "",
        "| collection | queries | before | after | gain | p | share | gain | p |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        values = (row["queries"], *(f"{row[when]['ndcg@10']:.3f}" for when in ("before", "after")))
        lines.append(f"| {' | '.join(map(str, (name, *values, *_gains(measured, name))))} |")
    before, after = (
        sum(row[when]["ndcg@10"] for row in rows.values()) / len(rows)
        for when in ("before", "after")
    )
    cells = ("**mean**", "", f"{before:.3f}", f"{after:.3f}", *_gains(measured, "all"))
    return [*lines, f"| {' | '.join(cells)} |"]


def _gains(measured: Measured, name: str) -> tuple[str, ...]:
    used, other = measured.rerank_in_use.get(name), measured.rerank_shares.get(name)
    if used is None or other is None:
        return ("",) * 5
    changes = [(f"{one.gain:+.4f}", f"{one.p:.4f}") for one in (used, other)]
    return (*changes[0], f"{other.share:g}", *changes[1])


def chart(measured: Measured) -> str:
    """Return the bars of nDCG@10 as an SVG picture."""
    modes = _modes(measured)
    groups = [(n, one["modes"]) for n, one in measured.collections.items()]
    groups.append(("mean", {m: {"ndcg@10": _mean(measured, m, "ndcg@10")} for m in modes}))
    step = _BAR * len(modes) + _GAP
    width = max(_WIDTH, _LEFT + step * len(groups) + _GAP)
    parts = [
        _SVG.format(width=width, height=_TOP + _HEIGHT + 40),
        f'<rect width="{width}" height="{_TOP + _HEIGHT + 40}" fill="#ffffff"/>',
        '<text x="16" y="24" font-size="15" fill="#222222">nDCG@10 by collection</text>',
    ]
    for place, mode in enumerate(modes):
        x = 230 + place * 90
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{_COLOURS[mode]}"/>')
        parts.append(f'<text x="{x + 17}" y="24" fill="#222222">{mode}</text>')
    for tenth in range(0, 11, 2):
        y = _TOP + _HEIGHT * (1 - tenth / 10)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{width - 12}" stroke="#e3e6ea"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">'
            f"{tenth / 10:.1f}</text>"
        )
    for place, (name, scores) in enumerate(groups):
        left = _LEFT + _GAP / 2 + place * step
        for number, mode in enumerate(modes):
            value = scores[mode]["ndcg@10"]
            height = _HEIGHT * value
            parts.append(
                f'<rect x="{left + number * _BAR:.1f}" y="{_TOP + _HEIGHT - height:.1f}"'
                f' width="{_BAR - 2}" height="{height:.1f}" fill="{_COLOURS[mode]}">'
                f"<title>{escape(name)} {mode} {value:.3f}</title></rect>"
            )
        middle = left + _BAR * len(modes) / 2
        parts.append(
            f'<text x="{middle:.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle"'
            f' fill="#222222">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_section(page: Path, text: str) -> None:
    """Put a table between its two marks in a page.

    Raises:
        ValueError: The page has not both marks.
    """
    before, mark, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not mark or not end:
        raise ValueError(f"{page} has no {_BEGIN} ... {_END}")
    page.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")
