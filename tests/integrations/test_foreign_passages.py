from beliefrag.integrations.foreign import foreign_passage
from beliefrag.types import Passage


def make(text: str, identifier: str | None = None, **metadata: object) -> Passage:
    return foreign_passage(text, metadata, identifier, ["title", "file_name"])


def test_a_text_without_an_id_has_the_same_id_always_and_another_text_another() -> None:
    assert make("alpha").id == make("alpha", source="elsewhere").id
    assert len({make("alpha").id, make("beta").id, make("alpha", title="T").id}) == 3
    assert make("alpha", "mine").id == "mine"


def test_title_and_source_are_single_clean_lines_and_other_kinds_of_metadata_are_left() -> None:
    passage = make("a\x00b \ud800", file_name="two\nlines", title=7, source=["list"])
    assert (passage.title, passage.source) == ("two lines", "")
    assert passage.text == "a b \ufffd"
