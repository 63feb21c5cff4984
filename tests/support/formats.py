"""Writes a small office's files: each format with facts that are nowhere else."""

from __future__ import annotations

import mailbox
import zipfile
from datetime import date
from email.message import EmailMessage
from pathlib import Path

import docx
import xlsxwriter
from PIL import Image, ImageDraw, ImageFont
from pptx import Presentation
from pptx.util import Inches

FACTS = {
    "Vera Lind ombudswoman": ("handbook.docx", "", "handbook > Ombudswoman"),
    "canteen seats Blue": ("handbook.docx", "", "handbook > Rooms"),
    "helpdesk extension": ("rules.md", "line 5", "House rules > IT"),
    "pier renewal budget": ("plans.pptx", "slide 2", "plans > Pier"),
    "Turku desks": ("plans.pptx", "slide 2", "plans > Pier"),
    "bolt M4": ("stock.xlsx", "sheet Stock, row 5", "stock > Stock > Inventory (pieces)"),
    "pear price": ("prices.ods", "sheet Fruit, row 3", "prices > Fruit"),
    "oak planted": ("garden.odt", "", "garden > Trees"),
    "gulls nest": ("sea.epub", "", "Sea book > Gulls"),
    "pool closes": ("pool.eml", "", "Closing of the pool"),
    "sauna opens": ("club.mbox", "message 2", "Sauna"),
    "washer M9": ("pool.eml", "attachment parts.csv, row 2", "parts"),
    "gate closes nine": ("gate.rtf", "", "gate"),
    "lantern oil litres": ("old.zip", "cellar/lamps.txt, line 1", "lamps"),
    "north field yield": ("yield.pdf", "page 2", "yield > Table 1. Yield per field in tonnes"),
    "station built": ("yield.pdf", "pages 1-2", "yield"),
    "ferry minutes": ("ferry.html", "", "Ferries"),
    "Hallgrim shoe size": ("shoes.csv", "row 3", "shoes"),
    "Odin raven": ("birds.jsonl", "line 2", "Birds"),
    "mast height metres": ("mast.odp", "slide 2", "mast > The mast"),
    "choir rehearses": ("club.mbox", "message 1, attachment choir.txt, line 1", "choir"),
    "reserve fund note": ("plans.pptx", "slide 1", "plans > Budget"),
    "parse_toll int": ("toll.py", "lines 3-4", "toll.py > parse_toll"),
}
"""Words of each fact, and the file, place and title that it is cited with."""


def write_office(folder: Path) -> None:
    """Write all the files into a folder."""
    (folder / "rules.md").write_text(
        "# House rules\n\n## IT\n\nThe helpdesk has extension 4711.\n\n## Doors\n\nLock them.\n"
    )
    (folder / "toll.py").write_text(
        '"""Tolls."""\n\ndef parse_toll(text):\n    return int(text)\n\ndef write_toll(toll):\n    return str(toll)\n'
    )
    (folder / "gate.rtf").write_text(r"{\rtf1\ansi{\fonttbl{\f0 Times;}}\f0 The gate closes at nine.\par}")
    (folder / "ferry.html").write_text("<title>Ferries</title><p>The ferry takes 25 minutes.</p>")
    (folder / "shoes.csv").write_text("name,shoe size\nGudrun,38\nHallgrim,45\n")
    (folder / "birds.jsonl").write_text(
        '{"title": "Birds", "text": "A gull."}\n{"title": "Birds", "text": "Odin had a raven."}'
    )
    word = docx.Document()
    for heading in ("IT: passwords have 12 letters", "Ombudswoman: Vera Lind is the ombudswoman"):
        word.add_heading(heading.partition(":")[0], 1)
        word.add_paragraph(heading)
    word.add_heading("Rooms", 1)
    table = word.add_table(0, 2)
    for row in (("Room", "Canteen seats"), ("Blue", "14"), ("Red", "30")):
        for cell, value in zip(table.add_row().cells, row, strict=True):
            cell.text = value
    word.core_properties.title = "handbook"
    word.save(str(folder / "handbook.docx"))
    _write_slides(folder / "plans.pptx")
    with xlsxwriter.Workbook(folder / "stock.xlsx") as book:
        sheet = book.add_worksheet("Stock")
        for number, values in enumerate((["Inventory (pieces)"], [], ["Item", "Count", "Counted"], ["bolt M2", 7, ""])):
            sheet.write_row(number, 0, values)
        sheet.write_row(4, 0, ["bolt M4", 12])
        sheet.write_datetime(4, 2, date(2024, 5, 31), book.add_format({"num_format": "yyyy-mm-dd"}))
    _write_open_documents(folder)
    _write_mails(folder)
    with zipfile.ZipFile(folder / "old.zip", "w") as parts:
        parts.writestr("cellar/lamps.txt", "Each lantern takes two litres of oil.")
    write_pdf_with_table(folder / "yield.pdf")


def write_scan(path: Path) -> None:
    """Write a PDF whose only page is a picture of text."""
    picture = Image.new("RGB", (1200, 200), "white")
    ImageDraw.Draw(picture).text((40, 60), "The bridge toll is 35 crowns.", "black", ImageFont.load_default(48))
    picture.save(path)


def _write_slides(path: Path) -> None:
    slides = Presentation()
    for title, text in (("Budget", "It is tight."), ("Pier", "The pier renewal has a budget of 4.2 million.")):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
        slide.notes_slide.notes_text_frame.text = "Note: the reserve fund is empty." if title == "Budget" else ""
    table = slide.shapes.add_table(3, 2, Inches(1), Inches(4), Inches(4), Inches(1)).table
    for number, row in enumerate((("City", "Desks"), ("Oslo", "19"), ("Turku", "7"))):
        for column, value in enumerate(row):
            table.cell(number, column).text = value
    slides.save(str(path))


def _write_open_documents(folder: Path) -> None:
    names = "".join(
        f' xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"'
        for short in ("office", "text", "table", "draw")
    )
    cells = [("Fruit", "Price"), ("apple", "3"), ("pear", "4")]
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = "".join(f"<table:table-row>{''.join(map(cell.format, row))}</table:table-row>" for row in cells)
    garden = '<text:h text:outline-level="1">{}</text:h><text:p>{}</text:p>'
    bodies = {
        "garden.odt": (
            "text",
            garden.format("Roses", "Cut in March.") + garden.format("Trees", "The oak was planted in 1921."),
        ),
        "mast.odp": (
            "presentation",
            "".join(
                f"<draw:page><text:p>{heading}</text:p><text:p>{each}</text:p></draw:page>"
                for heading, each in (("The hull", "It is of oak."), ("The mast", "Its height is 31 metres."))
            ),
        ),
        "prices.ods": ("spreadsheet", f'<table:table table:name="Fruit">{rows}</table:table>'),
    }
    for name, (kind, body) in bodies.items():
        with zipfile.ZipFile(folder / name, "w") as parts:
            parts.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
            content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
            parts.writestr("META-INF/manifest.xml", "<manifest/>")
            parts.writestr("content.xml", f"<office:document-content{names}>{content}</office:document-content>")
    with zipfile.ZipFile(folder / "sea.epub", "w") as parts:
        parts.writestr("META-INF/container.xml", '<c><rootfile full-path="OPS/book.opf"/></c>')
        title = '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">Sea book</dc:title>'
        items = '<item id="a" href="a.xhtml"/><item id="b" href="b%20b.xhtml"/>'
        parts.writestr("OPS/book.opf", f'<p>{title}{items}<itemref idref="b"/><itemref idref="a"/></p>')
        for name, what in (("a", "Whales sing"), ("b b", "Gulls nest")):
            page = f"<html><body><h1>{what.split()[0]}</h1><p>{what} by the sea.</p></body></html>"
            parts.writestr(f"OPS/{name}.xhtml", page)


def _write_mails(folder: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Closing of the pool", "Ann <ann@example.org>"
    mail["Date"] = "Mon, 3 Mar 2025 10:00:00 +0000"
    mail.set_content("The pool closes on 5 May.")
    mail.add_attachment("item,count\nwasher M9,44\n", subtype="csv", filename="parts.csv")
    (folder / "pool.eml").write_bytes(bytes(mail))
    box = mailbox.mbox(folder / "club.mbox")
    for subject, text in (("Rowing", "Boats are in the shed."), ("Sauna", "The sauna opens in June.")):
        mail = EmailMessage()
        mail["Subject"], mail["From"] = subject, "Bo <bo@example.org>"
        mail.set_content(text)
        if subject == "Rowing":
            mail.add_attachment("The choir rehearses on Thursday.", filename="choir.txt")
        box.add(mail)
    box.close()


def write_pdf_with_table(path: Path) -> None:
    """Write a PDF of two pages, the second with a ruled table below its caption."""

    def write(x: int, y: int, text: str) -> str:
        return f"BT /F1 11 Tf {x} {y} Td ({text}) Tj ET"

    cells = [("Field", "2023", "2024"), ("North field", "12", "14"), ("South field", "9", "11")]
    table = [write(75 + 120 * x, 685 - 20 * y, cell) for y, row in enumerate(cells) for x, cell in enumerate(row)]
    lines = [f"70 {700 - 20 * y} m 430 {700 - 20 * y} l S" for y in range(4)]
    lines += [f"{70 + 120 * x} 700 m {70 + 120 * x} 640 l S" for x in range(4)]
    pages = [
        write(70, 720, "The station was built in 1933."),
        " ".join([write(70, 706, "Table 1. Yield per field in tonnes"), *table, *lines]),
    ]
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [4 0 R 6 0 R] /Count 2 >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, content in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    body = "".join(f"{number} 0 obj\n{each}\nendobj\n" for number, each in enumerate(objects, 1))
    path.write_text(f"%PDF-1.4\n{body}trailer\n<< /Size 8 /Root 1 0 R >>\n%%EOF\n")
