"""What `beliefrag doctor` looks at. Each check gives findings; none of them raises, and none changes anything."""

from beliefrag.cli.checkup.documents import check_documents
from beliefrag.cli.checkup.finding import Finding, State
from beliefrag.cli.checkup.machine import check_cache, check_installation
from beliefrag.cli.checkup.model import check_model
from beliefrag.cli.checkup.settings import check_settings

__all__ = [
    "Finding",
    "State",
    "check_cache",
    "check_documents",
    "check_installation",
    "check_model",
    "check_settings",
]
