"""Small .xlsx and .ods files, written by hand: XML in a zip archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape
from zipfile import ZipFile

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


def write_spreadsheet(
    path: Path, sheets: Mapping[str, Sheet], hidden: str = "", merged: str = ""
) -> str:
    """The path of a new file. `merged` is an area of the last sheet, such as A2:B2."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write = _write_xlsx if path.suffix == ".xlsx" else _write_ods
    with ZipFile(path, "w") as archive:
        write(archive, sheets, hidden, merged)
    return str(path)


def _write_xlsx(archive: ZipFile, sheets: Mapping[str, Sheet], hidden: str, merged: str) -> None:
    names, links = "", ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        state = ' state="hidden"' * (name == hidden)
        names += f'<sheet name="{name}" sheetId="{number}"{state} r:id="r{number}"/>'
        target = f"worksheets/sheet{number}.xml"
        links += f'<Relationship Id="r{number}" Type="{OFFICE}/worksheet" Target="{target}"/>'
        cells = "".join(f"<row>{_xlsx_cells(row, at)}</row>" for at, row in enumerate(rows, 1))
        area = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
        xml = f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData>{area}</worksheet>'
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


def _write_ods(archive: ZipFile, sheets: Mapping[str, Sheet], hidden: str, merged: str) -> None:
    tables = ""
    for name, rows in sheets.items():
        cells = "".join(
            f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows
        )
        style = ' table:style-name="hidden"' * (name == hidden)
        tables += f'<table:table table:name="{name}"{style}>{cells}</table:table>'
    if merged:
        tables = tables.replace(
            "<table:table-cell", '<table:table-cell table:number-columns-spanned="2"', 1
        )
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
    text = f"<text:p>{escape(str(value))}</text:p>" if value != "" else ""
    return (
        f'<table:table-cell{formula} office:value-type="{kind}"{content}>{text}</table:table-cell>'
    )
