"""BeliefRAG as a step of a LangChain chain: what comes before it writes the question, what follows reads the answer."""

from langchain_core.runnables import RunnableLambda

from beliefrag import BeliefRAG
from beliefrag.integrations.langchain import BeliefRAGRunnable, LangChainAnswer


def letter(answer: LangChainAnswer) -> str:
    """Return an answer as one would write it to somebody."""
    if answer["answer"] is None:
        return f"I would rather not say: {answer['reason']}."
    source = answer["sources"][0].metadata["source"]
    return f"{answer['answer']} ({answer['answerability']:.0%} sure, see {source})"


with BeliefRAG(docs="handbook/") as rag:
    chain = RunnableLambda(str.strip) | BeliefRAGRunnable(rag) | RunnableLambda(letter)
    print(chain.invoke("  Who approves travel above the limit?  "))
