"""What a check asks for its inputs: known ones, or Hypothesis, whose draws are recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Drawn = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """Known inputs: what a check asks for is looked up by its label."""

    drawn: Drawn

    def draw(self, strategy: Any, label: str = "") -> Any:
        return self.drawn[label]


@dataclass
class Recorder:
    """Inputs that Hypothesis draws, kept by their labels."""

    data: st.DataObject
    drawn: Drawn = field(default_factory=dict)

    def draw(self, strategy: st.SearchStrategy[Any], label: str = "") -> Any:
        self.drawn[label] = self.data.draw(strategy, label=label)
        return self.drawn[label]
