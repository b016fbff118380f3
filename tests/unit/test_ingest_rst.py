"""reStructuredText as text: no markup is left, and what directives document is there."""

from __future__ import annotations

import pytest
from tests.support.markup import markup_in

from whence.ingest.loaders.rst import write_rst
from whence.ingest.text_builder import TextBuilder


def text_of(source: str) -> str:
    return write_rst(source).text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (":ref:`words <label>`", "words"),
        (":ref:`some-label`", "some label"),
        (":doc:`/intro/first_steps`", "first steps"),
        (":func:`~a.b.c` and :meth:`.x`", "`c()` and `x()`"),
        (":py:class:`!os.PathLike`", "`os.PathLike`"),
        (":setting:`CONN_MAX` or :unheard-of:`two words`", "`CONN_MAX` or two words"),
        (":pep:`8`, :issue:`12`, :abbr:`LIFO (last in)`", "PEP 8, #12, LIFO (last in)"),
        (":menuselection:`File --> Save`", "File > Save"),
        ("*emph* **strong** ``code``", "emph strong `code`"),
        ("`link\ntext <https://example.org/\nlong>`_ end", "link text end"),
        ("`a title` and `a.name`", "a title and `a.name`"),
        ("|x|, |release|\n\n.. |x| replace:: *y*", "y, release"),
        ("A [#]_ b [9]_\n\n.. [#] One.\n.. [9] Two.", "A (note 1) b (note 9)\n\nNote 1: One.\n\nNote 9: Two."),
        ("A lone * and `tick and ``x", "A lone * and `tick and ``x"),
    ],
)  # fmt: skip
def test_roles_and_inline_markup_become_words(source: str, expected: str) -> None:
    """A role shows what Sphinx shows; links and substitutions are their text; what is no markup stays."""
    assert text_of(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".. note:: Short.\n\n   More.", "Note: Short.\n\nMore."),
        (".. warning::\n\n   - a", "Warning:\n\n- a"),
        (".. versionadded:: 1.2", "New in version 1.2."),
        (".. versionchanged:: 1.3\n   Faster. Much.", "Changed in version 1.3: Faster. Much."),
        (".. deprecated:: 2.0 Use x.", "Deprecated since version 2.0: Use x."),
        (".. code-block:: python\n   :caption: C\n\n   f(1)\n\n     g", "C\n\n```python\nf(1)\n\n  g\n```"),
        ("Like::\n\n    a\n\n    b", "Like:\n\n```\na\n\nb\n```"),
        (".. setting:: ABC\n\n   Default: 1.", "`ABC`\n    Default: 1."),
        (".. setting:: ABC\n\nText.", "Text."),
        (".. py:function:: f(a)\n                 g()\n\n   Do.\n\n   :param int a: An a.\n   :rtype: str",
         "`f(a)`\n`g()`\n    Do.\n    - `a` (int): An a.\n    - Return type: str"),
        (".. method:: m()", "`m()`"),
        (".. confval:: c\n   :default: ``1``\n   :no-index:", "`c`\n    Default: `1`."),
        (".. of-nobody:: Some words\n\n   Body.", "Some words\n    Body."),
        (".. toctree::\n   :hidden:\n\n   a\n\n.. image:: x.png\n.. raw:: html\n\n   <b>\n\n.. no text\n\nEnd.", "End."),
        (".. only:: html\n\n   Words.", "Words."),
        (".. class:: field-indent-13em\n\n- a", "- a"),
        (".. class:: run-in narrow\n\n   Words.", "Words."),
        (".. class:: counter(start)", "`counter(start)`"),
        (".. py:class:: counter", "`counter`"),
        ("term : kind\n   Said.\n\n   More.\nnext\n   Too.", "term : kind\n    Said.\n\n    More.\n\nnext\n    Too."),
        ("-a, --all  Every.\n--b=X      Bee.", "`-a`, `--all`\n    Every.\n\n`--b=X`\n    Bee."),
        ("#. a\n#. b\n\n   c\n#. d", "1. a\n2. b\n\n   c\n\n3. d"),
        ("- a\n\n  - b\n- c", "- a\n  - b\n- c"),
        ("== ==\nx  y\n== ==\n1  2\n== ==", "| x | y |\n|---|---|\n| 1 | 2 |"),
        ("+---+---+\n| a | b |\n+===+===+\n| 1 | c |\n|   | d |\n+---+---+", "| a | b |\n|---|---|\n| 1 | c d |"),
        (".. tabs::\n\n   .. code-tab:: ini\n\n      a\\b = *\n\n.. tab:: Mac\n\n   .. unknown::\n\n.. tab:: Linux\n\n   x", "```ini\na\\b = *\n```\n\nLinux: x"),
        (".. list-table:: T\n   :header-rows: 1\n\n   * - A\n     - B\n   * - 1\n     - 2", "T\n\n| A | B |\n|---|---|\n| 1 | 2 |"),
        ('.. csv-table::\n   :header: A, B\n\n   "1, 2", 3', "| A | B |\n|---|---|\n| 1, 2 | 3 |"),
        (":orphan:\n\n:Author: Me", "- Author: Me"),
    ],
)  # fmt: skip
def test_directives_and_lists_become_blocks(source: str, expected: str) -> None:
    """Each construct has one form, which `text_builder` states."""
    assert text_of(source) == expected


def test_a_reference_has_the_title_of_its_label() -> None:
    """A label of the same text stands for the title below it."""
    assert "See The Title." in text_of(
        ".. _the-label:\n\nThe Title\n=========\n\nSee :ref:`the-label`."
    )


def test_definitions_travel_with_their_terms() -> None:
    """The term and the beginning of its definition are one part; later parts know the term."""
    builder: TextBuilder = write_rst(
        ".. class:: C\n\n   One. Two.\n\n   .. method:: m\n\n      Three. Four."
    )
    (block,) = builder.blocks
    parts = [builder.text[slice(*part)] for part in block.parts]
    leads = [[builder.text[slice(*lead)] for lead in part] for part in block.leads]

    assert parts == ["`C`\n    One.", "Two.", "`m`\n        Three.", "Four."]
    assert leads == [[], ["`C`"], ["`C`"], ["`C`", "`m`"]]


def test_a_title_in_the_wrong_place_is_still_a_heading() -> None:
    """A title whose level docutils does not expect is not lost."""
    text = text_of("A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n\nWords.")

    assert text == "A\n\nB\n\nC\n\nD\n\nE\n\nWords."


def test_an_example_of_everything_has_no_markup() -> None:
    """The detector of markup finds something in the source and nothing in the text."""
    source = ".. _x:\n\nT\n=\n\n:ref:`a <b>` ``c`` |d| `e`_\n\n.. note:: f\n.. _e: http://g\n.. foo::\n\n   bar::\n\n      baz"

    assert markup_in(source)
    assert markup_in(text_of(source)) == []
