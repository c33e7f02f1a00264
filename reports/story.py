"""Format the steps of a violation's story for pages."""

from __future__ import annotations

from harness.documents.story import Story


def story_steps(story: Story) -> tuple[tuple[str, str], ...]:
    """Return the time and text of each step."""
    return tuple(("" if step.at is None else f"{step.at:.3f} s", step.text) for step in story.steps)


def story_addresses(story: Story) -> tuple[str, ...]:
    """Return, for each step, the fragment of the address that opens it in the report of the run; empty without a
    time."""
    return tuple("" if step.at is None else f"#t={step.at:.6f}" for step in story.steps)
