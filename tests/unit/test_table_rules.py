"""Rows of tables that cannot answer a question are left out."""

from __future__ import annotations

import pytest

from whence.models.protocols import WriteRequest
from whence.quoting.evidence_spans import all_spans
from whence.quoting.table_rules import RowRules
from whence.text.overlap import words_of

YEARS = "| kt | 2031 | 2030 |\n|---|---|---|\n| Ore shipped | 4,120 | 3,870 |\n| Ore sold | 2,400 | 2,310 |"
QUARTERS = YEARS.replace("2031", "Q1 2031").replace("2030", "Q2 2031")
DAYS = YEARS.replace("2031", "30 June 2031").replace("2030", "30 June 2030")
FIRMS = "| Item | Basic | Plus |\n|---|---|---|\n| Ore shipped | 40 | 55 |\n| Ore sold | 2 | 3 |"
DAYS_OFF = "| Name | Days |\n|---|---|\n| Ida Brandt | 27 |\n| Bo Lind | 25 |"
PEOPLE = "| Site | Head | Since |\n|---|---|---|\n| Ore Mill | Ida Brandt | 2030 |\n| Ore Dock | Bo Lind | 2031 |"


@pytest.mark.parametrize(
    ("table", "question", "is_ruled_out"),
    [
        (YEARS, "How much ore was shipped in 2027?", True),
        (YEARS, "How much ore was shipped in FY27?", True),
        (YEARS, "How much ore was shipped in Q3 2031?", True),
        (YEARS, "How much ore was shipped in FY2030?", False),
        (YEARS, "How much ore was shipped?", False),
        (YEARS, "How much ore was there on 31 December 2031?", False),
        (QUARTERS, "How much ore was shipped in 2Q31?", False),
        (QUARTERS, "How much ore was shipped in 4Q31?", True),
        (DAYS, "How much ore was shipped in fiscal 2030?", False),
        (DAYS, "How much ore was shipped in fiscal 2029?", True),
        (FIRMS, "How much ore was shipped in 2027?", False),
        (YEARS, "Who shipped or sold the ore of the mill?", True),
        (PEOPLE, "Who is the head of the mill?", False),
        (YEARS, "Where was the ore sold and shipped?", True),
        (DAYS_OFF, "Who has 27 days?", False),
        (YEARS, "When was most ore shipped?", False),
    ],
)
def test_rows_of_other_periods_and_kinds(table: str, question: str, is_ruled_out: bool) -> None:
    """A row is out when no column is of the period asked for, or it has numbers where none is asked for."""
    request = WriteRequest(template_id="document-prompt", query=question, documents=(table,))
    words = words_of(question, [table])
    rows = [one for one in all_spans(request, words) if one.unit.kind == "row"]
    assert rows
    rules = RowRules(question, words)
    assert {rules.rule_out(one) for one in rows} == {is_ruled_out}
