"""A LangChain vector store that searches for BeliefRAG. Put your own store in the place of this one."""

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from beliefrag import BeliefRAG
from beliefrag.integrations.langchain import FromLangChain

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_documents(
    [
        Document(file.read_text(encoding="utf-8"), id=file.name, metadata={"source": str(file)})
        for file in sorted(Path("handbook").glob("*.md"))
    ]
)

with BeliefRAG(retriever=FromLangChain(store, identity="fake embedding, size 64")) as rag:
    result = rag.ask("Who approves travel above the limit?")
    print(result.outcome, result.answer, list(result.sources))
