"""What each worker did when, in the form that chrome://tracing and Perfetto open."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """One piece of work.

    Attributes
    ----------
    name : str
    stage : str
    node : str
        The machine, by Ray's id of it.
    process : int
    start, end : float
        Seconds since 1970.
    """

    name: str
    stage: str
    node: str
    process: int
    start: float
    end: float

    @classmethod
    def since(cls, start: float, name: str, stage: str, node: str) -> Span:
        """Work of this process that ends now."""
        return cls(name, stage, node, os.getpid(), start, time.time())


def trace_events(spans: Iterable[Span]) -> dict[str, Any]:
    """Spans as trace events: a line a process, grouped by node, times in microseconds."""
    spans = sorted(spans, key=lambda span: span.start)
    nodes = {node: number for number, node in enumerate(dict.fromkeys(span.node for span in spans))}
    names = [
        {"name": "process_name", "ph": "M", "pid": number, "args": {"name": f"node {node[:8]}"}}
        for node, number in nodes.items()
    ]
    events = [
        {
            "name": span.name,
            "cat": span.stage,
            "ph": "X",
            "ts": round(1e6 * span.start),
            "dur": round(1e6 * (span.end - span.start)),
            "pid": nodes[span.node],
            "tid": span.process,
        }
        for span in spans
    ]
    return {"traceEvents": names + events, "displayTimeUnit": "ms"}
