"""reStructuredText as text: no markup is left, and what directives document is there."""

from __future__ import annotations

import pytest
from tests.support.markup import markup_in

from whence.ingest.loader_registry import loader_for
from whence.ingest.loaders.rst import write_rst
from whence.ingest.sources import SourceFile, suffix_of
from whence.ingest.text_builder import TextBuilder
from whence.schema.places import place_of


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
        (":class:`_core.Pump`, :paramref:`~_core.Pump.rate`, :param:`_flow.open.rate`", "`core.Pump`, `rate`, `flow.open.rate`"),
        (":func:`_thread.start`, :attr:`__main__.x`, :data:`_private`", "`_thread.start()`, `__main__.x`, `_private`"),
        ("*emph* **strong** ``code``", "emph strong `code`"),
        ("`link\ntext <https://example.org/\nlong>`_ end", "link text end"),
        ("`a title` and `a.name`", "a title and `a.name`"),
        ("`.URLSpec`, `.gen.Loop`, `.Loop.run()`, `.env`", "`URLSpec`, `gen.Loop`, `Loop.run()`, .env"),
        ("|x|, |release|\n\n.. |x| replace:: *y*", "y, release"),
        ("A [#]_ b [9]_\n\n.. [#] One.\n.. [9] Two.", "A [1] b [9]\n\nNote 1: One.\n\nNote 9: Two."),
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
        (".. note::\n   :class: dropdown\n\n   Care.", "Note: Care."),
        (".. legacy:: The old valve is no longer\n   sold.\n\n   More.", "Legacy: The old valve is no longer sold.\n\nMore."),
        (".. of-nobody:: The new valve takes more\n   *water*.", "The new valve takes more water."),
        (".. of-nobody:: The new valve is *here*.", "The new valve is here."),
        (".. rst:role:: pump\n\n   Shows it.\n\n.. role:: red", "`pump`\n    Shows it."),
        (".. py:module:: pumps\n   :synopsis: S\n\n   All pumps.", "`pumps`\n    All pumps."),
        (".. version-removed:: 4.0\n   Use y.", "Removed in version 4.0: Use y."),
        (".. sourcecode:: pycon+sql\n\n   >>> f()\n   {execsql}SELECT 1\n   {stop}1", "```pycon+sql\n>>> f()\nSELECT 1\n1\n```"),
        (".. setting:: ABC\n\n   Default: 1.", "`ABC`\n    Default: 1."),
        (".. setting:: ABC\n\nText.", "Text."),
        (".. py:function:: f(a)\n                 g()\n\n   Do.\n\n   :param int a: An a.\n   :rtype: str",
         "`f(a)`\n`g()`\n    Do.\n    - `a` (int): An a.\n    - Return type: str"),
        (".. method:: m()", "`m()`"),
        (".. confval:: c\n   :default: ``1``\n   :no-index:", "`c`\n    Default: `1`."),
        (".. of-nobody:: Some words\n\n   Body.", "Some words\n    Body."),
        (".. toctree::\n   :hidden:\n\n   a\n\n.. image:: x.png\n.. raw:: html\n\n   <b>\n\n.. no text\n\nEnd.", "End."),
        (".. only:: html\n\n   Words.", "Words."),
        (".. automodule:: pumps\n   :members:\n\n   All pumps.\n\n   .. autofunction:: start", "All pumps."),
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
    text = text_of(
        "A\n=\n\nB\n-\n\nSee :ref:`two`, :ref:`own_words <two>`, :ref:`mark` and :ref:`no_title`.\n\n"
        "- _`mark`\n\n.. _one:\n.. _Two:\n\nThe *Title*\n=========\n\n.. _no_title:\n\nWords.\n\nC\n-"
    )
    assert "See The Title, own_words, mark and no title." in text


def test_a_reference_stands_where_the_file_has_it() -> None:
    """A paragraph has the lines of its source, also when it begins with a title that stands elsewhere."""
    builder = write_rst(
        "A\n=\n\n.. _x:\n\nThe Title\n---------\n\nMore.\n\n.. seealso::\n\n   :ref:`x`\n"
    )
    at = builder.text.index("See also: The Title")
    place = place_of(builder.places, at, len(builder.text))

    assert place is not None
    assert (place.line_start, place.line_end) == (11, 13)


RELEASES = """
===========
Pump 3 Log
===========

.. changelog_imports::

    .. include:: pump_2.rst

.. changelog::
    :version: 3.1.4
    :released: May 2, 2031
    :include_notes_from: notes

    .. change::
        :tags: bug, valve
        :tickets: 12, 345

        Closed valves stay closed.  They leak
        no more.

    .. change::
        :tags: feature
        :versions: 2.9.0

        Added ``dry_run``.

        .. seealso::

            :ref:`pumps`

    .. change::

        Painted blue.

.. changelog::
    :version: 3.1.3
    :released:

    .. change::
        :tickets: 9

        Fewer bolts.
"""


def test_releases_are_sections_of_their_changes() -> None:
    """A changelog is a section with version and date; a change is an item with its tags and tickets."""
    builder = write_rst(RELEASES)

    assert builder.text == (
        "Pump 3 Log\n\n3.1.4 (released May 2, 2031)\n\n"
        "- bug, valve (#12, #345): Closed valves stay closed. They leak no more.\n"
        "- feature (also in 2.9.0): Added `dry_run`.\n\n  See also: pumps\n\n- Painted blue.\n\n"
        "3.1.3\n\n- #9: Fewer bolts."
    )
    first, *_ = (block for block in builder.blocks if block.kind == "atomic")
    assert first.path == ("Pump 3 Log", "3.1.4 (released May 2, 2031)")
    for words, lines in {"3.1.4 (": (10, 13), "leak no": (19, 20), "Painted": (32, 34)}.items():
        at = builder.text.index(words)
        place = place_of(builder.places, at, at + len(words))
        assert place is not None
        assert lines[0] <= place.line_start <= place.line_end <= lines[1]


@pytest.mark.parametrize(
    ("name", "source", "title"),
    [
        ("a.rst", "One\n===\n\nAbout it.\n\nSub\n---\n\nBoth of it.", "One"),
        ("a.rst", "One\n===\n\nAbout it.\n\nTwo\n===\n\nBoth of it.", ""),
        ("a.txt", "One\n===\n\nAbout it.\n\nTwo\n===\n\nBoth of it.", ""),
        ("a.md", "# One\n\nAbout it.\n\n## Sub\n\nBoth of it.", "One"),
        ("a.md", "# One\n\nAbout it.\n\n# Two\n\nBoth of it.", ""),
        ("a.md", "---\ntitle: Own\n---\n\n# One\n\nAbout it.\n\n# Two\n\nBoth of it.", "Own"),
        ("a.html", "<body><h1>One</h1><p>About it.</p><h2>Sub</h2><p>Both of it.</p></body>", "One"),
        ("a.html", "<body><h1>One</h1><p>About it.</p><h1>Two</h1><p>Both of it.</p></body>", ""),
        ("a.html", "<title>Own</title><body><h1>One</h1><p>About it.</p><h1>Two</h1><p>Both of it.</p></body>", "Own"),
    ],
)  # fmt: skip
def test_only_a_lone_heading_is_the_title(name: str, source: str, title: str) -> None:
    """The first of several headings of the top level stands above its own section, not above the others."""
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))

    assert loader_for(file).parse(file, source.encode()).title == title


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
