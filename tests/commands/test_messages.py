"""The page of messages is what the commands answer."""

from __future__ import annotations

from tests.commands.messages import PAGE, page


def test_the_page_of_messages_is_current() -> None:
    """Otherwise run `python -m tests.commands.messages`, and read what has changed aloud."""
    assert page() == PAGE.read_text(encoding="utf-8")
