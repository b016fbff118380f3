"""Read workbooks: cells as they are shown (`cells`), and the tables that they form (`tables`).

In: the bytes of a workbook. Out: a `Workbook`. `xlsx` and `opendocument` read XML, which has all
that cells show, and what is hidden; `xls` and `binary` (`.xlsb`) use libraries. Open `cells` first.
"""
