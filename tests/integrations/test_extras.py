"""Without an extra everything else works, and its part says in one line what to install."""

import subprocess
import sys

import pytest

from tests.support.messages import mentions

HIDDEN = """
import sys
sys.modules[{library!r}] = None
import beliefrag
beliefrag.BeliefRAG
try:
    import beliefrag.integrations.{extra}
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("extra", "library", "what"),
    [
        ("langchain", "langchain_core", "The LangChain integration"),
        ("llamaindex", "llama_index.core", "The LlamaIndex integration"),
        ("otel", "opentelemetry.sdk.trace", "Tracing"),
        ("otel", "openinference.semconv.trace", "Tracing"),
    ],
)
def test_an_absent_library_is_told_in_one_line_with_the_extra_to_install(extra: str, library: str, what: str) -> None:
    code = HIDDEN.format(extra=extra, library=library)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = done.stdout.strip()
    assert "\n" not in line
    assert mentions(line, f"MissingExtra {what}", "library", "cannot be imported")
    assert line.endswith(f"pip install 'beliefrag[{extra}]'")
