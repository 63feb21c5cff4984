"""A LlamaIndex retriever that searches for BeliefRAG. Put your own index in the place of this one."""

from pathlib import Path

from llama_index.core import SummaryIndex
from llama_index.core.schema import TextNode

from beliefrag import BeliefRAG
from beliefrag.integrations.llamaindex import FromLlamaIndex

nodes = [
    TextNode(id_=file.name, text=file.read_text(encoding="utf-8"), metadata={"file_path": str(file)})
    for file in sorted(Path("handbook").glob("*.md"))
]

with BeliefRAG(retriever=FromLlamaIndex(SummaryIndex(nodes).as_retriever())) as rag:
    result = rag.ask("Who approves travel above the limit?")
    print(result.outcome, result.answer, [passage.source for passage in result.read_passages])
