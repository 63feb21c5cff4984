"""Text in pictures and scans, with the extra `beliefrag[ocr]` or with tesseract where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Any

from PIL import Image

from beliefrag.retrieval.documents import CorpusFile, Document, Unreadable, clean_text

_NEEDS = "is a picture of text; install beliefrag[ocr] or tesseract to read it"


def read_picture(file: CorpusFile) -> Iterator[Document]:
    """Read the text in a picture."""
    with Image.open(file.content) as picture:
        yield file.document("", [recognize(picture.convert("L"))], place="picture")


def recognize(picture: Image.Image) -> str:
    """Return the text in a picture, or raise `Unreadable` where nothing that recognizes text is installed."""
    if (engine := _open_engine()) is not None:
        found, _ = engine(picture)
        return clean_text("\n".join(text for _, text, _ in found or ()))
    if (tesseract := shutil.which("tesseract")) is None:
        raise Unreadable(_NEEDS)
    out = BytesIO()
    picture.save(out, "PNG")
    command = [tesseract, "stdin", "stdout"]
    done = subprocess.run(command, input=out.getvalue(), capture_output=True, check=False)  # noqa: S603 - no input in it
    if done.returncode:
        raise Unreadable(f"is a picture of text; tesseract fails: {done.stderr.decode('utf-8', 'replace')[:100]}")
    return clean_text(done.stdout.decode("utf-8", "replace"))


@cache
def _open_engine() -> Any:
    try:
        from rapidocr_onnxruntime import RapidOCR  # noqa: PLC0415
    except ImportError:
        return None
    return RapidOCR()
