"""Small .xlsx and .ods files, written by hand: XML in a zip archive."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
ODS = "urn:oasis:names:tc:opendocument:xmlns"


@dataclass(frozen=True)
class Formula:
    """A cell with a formula, and the text that was saved with it, if any."""

    saved: str = ""


Cell = str | float | bool | date | Formula | None
Sheet = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Options:
    hidden: str = ""  # a sheet
    merged: str = ""  # an area of the last sheet, such as A2:B2
    hidden_rows: Collection[int] = ()  # of all sheets, from 1
    hidden_columns: Collection[int] = ()
    far: tuple[int, int] = (0, 0)  # row and column of one more text; with the name of the column
    far_name: str = ""


def write_spreadsheet(path: Path, sheets: Mapping[str, Sheet], **options: Any) -> str:
    """The path of a new file. `options` are fields of `Options`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write = _write_xlsx if path.suffix == ".xlsx" else _write_ods
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        write(archive, sheets, Options(**options))
    return str(path)


def _write_xlsx(archive: ZipFile, sheets: Mapping[str, Sheet], options: Options) -> None:
    names, links = "", ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        state = ' state="hidden"' * (name == options.hidden)
        names += f'<sheet name="{name}" sheetId="{number}"{state} r:id="r{number}"/>'
        # Other numbers than in the workbook, as of sheets that were moved.
        target = f"worksheets/sheet{len(sheets) - number}.xml"
        links += f'<Relationship Id="r{number}" Type="{OFFICE}/worksheet" Target="{target}"/>'
        cells = ""
        for at, row in enumerate(rows, 1):
            is_hidden = ' hidden="1"' * (at in options.hidden_rows)
            cells += f"<row{is_hidden}>{_xlsx_cells(row, at)}</row>"
        if options.far_name:
            place = f"{options.far_name}{options.far[0]}"
            cells += f'<row r="{options.far[0]}">{_xlsx_cell("x", place)}</row>'
        columns = "".join(f'<col min="{n}" max="{n}" hidden="1"/>' for n in options.hidden_columns)
        columns = f"<cols>{columns}</cols>" if columns else ""
        merged = options.merged
        area = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
        xml = f'<worksheet xmlns="{MAIN}">{columns}<sheetData>{cells}</sheetData>{area}</worksheet>'
        archive.writestr(f"xl/{target}", xml)
    links += f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.xml"/>'
    archive.writestr("xl/_rels/workbook.xml.rels", _relationships(links))
    archive.writestr(
        "xl/workbook.xml",
        f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{names}</sheets></workbook>',
    )
    link = f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    archive.writestr("_rels/.rels", _relationships(link))
    formats = '<xf numFmtId="0"/><xf numFmtId="14"/>'  # 14: a date
    xml = f'<styleSheet xmlns="{MAIN}"><cellXfs>{formats}</cellXfs></styleSheet>'
    archive.writestr("xl/styles.xml", xml)


def _relationships(links: str) -> str:
    return f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>'


def _xlsx_cells(row: Sequence[Cell], number: int) -> str:
    return "".join(map(_xlsx_cell, row, (f"{letter}{number}" for letter in "ABCDEF")))


def _xlsx_cell(value: Cell, place: str) -> str:
    match value:
        case None:
            return ""
        case Formula(saved):
            return f'<c r="{place}" t="str"><f>A1</f>{f"<v>{saved}</v>" * bool(saved)}</c>'
        case bool():
            return f'<c r="{place}" t="b"><v>{value:d}</v></c>'
        case date():
            return f'<c r="{place}" s="1"><v>{(value - date(1899, 12, 30)).days}</v></c>'
        case str():
            text = f'<t xml:space="preserve">{escape(value)}</t>'
            return f'<c r="{place}" t="inlineStr"><is>{text}</is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def _write_ods(archive: ZipFile, sheets: Mapping[str, Sheet], options: Options) -> None:
    tables, (far_row, far_column) = "", options.far
    for name, rows in sheets.items():
        cells = ""
        for at in range(1, 2 + max([0, *options.hidden_columns])):
            is_hidden = ' table:visibility="collapse"' * (at in options.hidden_columns)
            cells += f"<table:table-column{is_hidden}/>"
        for at, row in enumerate(rows, 1):
            is_hidden = ' table:visibility="filter"' * (at in options.hidden_rows)
            cells += f"<table:table-row{is_hidden}>{''.join(map(_ods_cell, row))}</table:table-row>"
        if far_row:
            before = f'<table:table-cell table:number-columns-repeated="{far_column - 1}"/>'
            repeated = f'table:number-rows-repeated="{far_row - 1 - len(rows)}"'
            cells += f"<table:table-row {repeated}>{before}</table:table-row>"
            cells += f"<table:table-row>{before}{_ods_cell('x')}</table:table-row>"
        style = ' table:style-name="hidden"' * (name == options.hidden)
        tables += f'<table:table table:name="{name}"{style}>{cells}</table:table>'
    if options.merged:
        cell = "<table:table-cell(.*?)</table:table-cell>"
        first = r'<table:table-cell table:number-columns-spanned="2"\1</table:table-cell>'
        second = r"<table:covered-table-cell\2</table:covered-table-cell>"
        tables = re.sub(cell + cell, first + second, tables, count=1)
    parts = ("office", "table", "text", "style")
    spaces = " ".join(f'xmlns:{part}="{ODS}:{part}:1.0"' for part in parts)
    style = (
        '<style:style style:name="hidden" style:family="table">'
        '<style:table-properties table:display="false"/></style:style>'
    )
    archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    archive.writestr("META-INF/manifest.xml", f'<manifest xmlns="{ODS}:manifest:1.0"/>')
    archive.writestr(
        "content.xml",
        f"<office:document-content {spaces}><office:automatic-styles>{style}"
        f"</office:automatic-styles><office:body><office:spreadsheet>{tables}"
        "</office:spreadsheet></office:body></office:document-content>",
    )


def _ods_cell(value: Cell) -> str:
    kind, content, formula = "string", "", ""
    match value:
        case None:
            return "<table:table-cell/>"
        case Formula(saved):
            formula, value = ' table:formula="of:=[.A1]"', saved
        case bool():
            kind, content = "boolean", f' office:boolean-value="{str(value).lower()}"'
        case date():
            kind, content = "date", f' office:date-value="{value}"'
        case float() | int():
            kind, content = "float", f' office:value="{value}"'
        case _:
            pass
    text = escape(str(value)).replace("\t", "<text:tab/>").replace("\v", "<text:line-break/>")
    text = "".join(f"<text:p>{line}</text:p>" for line in text.split("\n")) * (value != "")
    return (
        f'<table:table-cell{formula} office:value-type="{kind}"{content}>{text}</table:table-cell>'
    )
