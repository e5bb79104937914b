"""The page of messages has the answers that the commands give now."""

from __future__ import annotations

from tests.commands.messages import PAGE, page


def test_the_page_of_messages_is_current() -> None:
    """If this fails, run `python -m tests.commands.messages`, and read the changed messages aloud."""
    assert page() == PAGE.read_text(encoding="utf-8")
