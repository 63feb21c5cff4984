"""BeliefRAG as a LlamaIndex query engine, wrapped as a tool that an agent can call."""

from llama_index.core.tools import QueryEngineTool

from beliefrag import BeliefRAG
from beliefrag.integrations.llamaindex import BeliefRAGQueryEngine

with BeliefRAG(docs="handbook/") as rag:
    tool = QueryEngineTool.from_defaults(
        BeliefRAGQueryEngine(rag), name="handbook", description="Answers questions about the handbook, or declines."
    )
    output = tool.call(input="Who approves travel above the limit?")
    print(output.content, output.raw_output.metadata["outcome"], output.raw_output.metadata["answerability"])
