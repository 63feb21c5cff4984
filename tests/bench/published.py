"""One record of each published format, in exactly the published shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOTPOT = {
    "_id": "5a8b57f25542995d1e6f1371",
    "answer": "yes",
    "question": "Were both of the same nationality?",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0]],
    "context": [
        ["Ed Wood (film)", ["A film.", " It is from 1994."]],
        ["Scott Derrickson", ["Scott is an  American director.", " He lives in Los Angeles."]],
        ["Ed Wood", ["Edward was an American filmmaker."]],
    ],
    "type": "comparison",
    "level": "hard",
}
MUSIQUE = {
    "id": "2hop__1_2",
    "paragraphs": [
        {"idx": 0, "title": "Port Blair", "paragraph_text": "A capital.", "is_supporting": False},
        {"idx": 1, "title": "Stanley", "paragraph_text": "A seat.", "is_supporting": True},
    ],
    "question": "What is the seat?",
    "question_decomposition": [{"id": 1, "question": "x >> y", "answer": "z", "paragraph_support_idx": 1}],
    "answer": "Stanley",
    "answer_aliases": ["Stanley, North Dakota"],
    "answerable": True,
}
TRIVIA = {
    "Data": [
        {
            "Answer": {
                "Aliases": ["Cotswolds", "The Cotswolds"],
                "NormalizedAliases": ["cotswolds"],
                "Value": "Cotswold Hills",
                "Type": "WikipediaEntity",
            },
            "EntityPages": [{"DocSource": "TagMe", "Filename": "Cleeve_Hill.txt", "Title": "Cleeve Hill"}],
            "Question": "Cleeve Hill is in which range?",
            "QuestionId": "tc_33",
            "QuestionSource": "http://www.triviacountry.com/",
            "SearchResults": [
                {
                    "Title": "Hills",
                    "Description": "Highest of the Cotswolds",
                    "Filename": "33/33_1.txt",
                    "Url": "http://x",
                }
            ],
        }
    ],
    "Domain": "Web",
    "Split": "dev",
    "Version": 1.0,
}
RGB_FACT = {
    "id": 0,
    "query": "Super Bowl 2021 location",
    "answer": "Tampa, Florida",
    "fakeanswer": "Glendale, Arizona",
    "positive": ["in Tampa, Florida"],
    "positive_wrong": ["in Glendale, Arizona"],
    "negative": ["elsewhere"],
}
POPQA = (
    "id\tsubj\tprop\tobj\tsubj_id\tprop_id\tobj_id\ts_aliases\to_aliases\ts_uri\to_uri\ts_wiki_title\to_wiki_title"
    "\ts_pop\to_pop\tquestion\tpossible_answers\n"
    '4222362\tGeorge Rankin\toccupation\tpolitician\t1850297\t22\t2834605\t"[""George James Rankin""]"\t"[]"'
    "\thttp://www.wikidata.org/entity/Q5543720\thttp://www.wikidata.org/entity/Q82955\tGeorge Rankin\tPolitician"
    '\t142\t25692\tWhat is George Rankin\'s occupation?\t"[""politician"", ""political leader""]"\n'
)


def lines(path: Path, *records: Any) -> Path:
    """Write records as JSON Lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
