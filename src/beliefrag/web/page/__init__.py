"""The page to ask in: a question box, the steps as they happen, the answer with its quotes, and feedback on it."""

from beliefrag.web.page.episodes import PageEpisodes
from beliefrag.web.page.feedback import FeedbackFile
from beliefrag.web.page.routes import AskPage, page_routes

__all__ = ["AskPage", "FeedbackFile", "PageEpisodes", "page_routes"]
