from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval.documents import Document

Read = Callable[[Path], tuple[list[Document], list[str]]]


def page(tmp_path: Path, read: Read, html: str | bytes) -> tuple[str, str]:
    path = tmp_path / "page.html"
    path.write_bytes(html if isinstance(html, bytes) else html.encode())
    [document], complaints = read(path)
    assert complaints == []
    return document.title, document.text


def test_the_visible_text_is_read_block_by_block(tmp_path: Path, read: Read) -> None:
    title, text = page(
        tmp_path,
        read,
        """<!DOCTYPE html><html><head><title> The  title </title><style>p {color: red}</style></head>
        <body><!-- a comment --><h1>Heading</h1><p>One <b>bold</b> word,<br>then   a line.</p>
        <script>alert("no")</script><ul><li>first</li><li>second</li></ul>
        <table><tr><th>Name</th><th>Age</th></tr><tr><td>Ada</td><td>36</td></tr></table>
        <noscript>unseen</noscript><template>unseen</template>tail</body></html>""",
    )
    assert title == "The title"
    assert text.split("\n\n") == [
        "Heading",
        "One bold word,\nthen a line.",
        "first",
        "second",
        "Name  Age",
        "Ada  36",
        "tail",
    ]


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title></title><h1>From <i>h1</i></h1><p>x", "From h1"),
        ("<p>nothing said", "page"),
        ("<body><svg><title>An icon</title></svg><h1>Real</h1>", "Real"),
    ],
)
def test_the_title_falls_back_to_the_heading_and_then_to_the_name(
    tmp_path: Path, read: Read, html: str, title: str
) -> None:
    assert page(tmp_path, read, html)[0] == title


def test_broken_html_is_read_as_far_as_it_goes(tmp_path: Path, read: Read) -> None:
    assert page(tmp_path, read, "<p>open <b>bold <p>next &amp; &nosuch; <div")[1].split() == [
        "open", "bold", "next", "&", "&nosuch;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="shift_jis"><p>日本語'.encode("shift_jis"),
        '<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"><p>日本語'.encode("shift_jis"),
        '<meta charset="iso-8859-1"><p>日本語'.encode(),
        '<?xml version="1.0" encoding="utf-8"?><html><body><p>日本語</p></body></html>'.encode(),
        "\ufeff<p>日本語".encode("utf-16"),
    ],
)
def test_the_encoding_is_found_even_where_the_page_is_wrong_about_it(tmp_path: Path, read: Read, data: bytes) -> None:
    assert page(tmp_path, read, data)[1] == "日本語"


def test_an_unknown_encoding_does_not_stop_the_reader(tmp_path: Path, read: Read) -> None:
    assert page(tmp_path, read, b'<meta charset="klingon"><p>caf\xe9')[1] == "café"
    assert page(tmp_path, read, b'<meta charset="hex"><p>caf\xe9')[1] == "café"


def test_declared_entities_are_neither_expanded_nor_fetched(tmp_path: Path, read: Read) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
    html = f"""<!DOCTYPE html [<!ENTITY l0 "lol">{lol}
        <!ENTITY file SYSTEM "file://{tmp_path}/secret.txt">]><html><body><p>&l8; &file; end</p></body></html>"""
    began = time.monotonic()
    _, text = page(tmp_path, read, html)
    assert "the secret" not in text
    assert "lollol" not in text
    assert len(text) < 3000
    assert time.monotonic() - began < 5


def test_very_deep_nesting_is_survived(tmp_path: Path, read: Read) -> None:
    _, text = page(tmp_path, read, "<p>start</p>" + "<div>" * 50_000 + "deep")
    assert text.startswith("start")
