"""What each worker did when, in the form that chrome://tracing and Perfetto open."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Begin:
    """When a piece of work begins, by the clock and by the processor time of the process."""

    start: float
    busy: float

    @classmethod
    def now(cls) -> Begin:
        """At this moment."""
        return cls(time.time(), time.process_time())


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
    busy : float
        Seconds of processor time.
    peak : int
        Largest memory of the process so far, in bytes.
    """

    name: str
    stage: str
    node: str
    process: int
    start: float
    end: float
    busy: float = 0.0
    peak: int = 0

    @classmethod
    def since(cls, begin: Begin, name: str, stage: str, node: str) -> Span:
        """Work of this process that ends now."""
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return cls(name, stage, node, os.getpid(), begin.start, time.time(), time.process_time() - begin.busy, peak)


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
            "args": {"busy": round(span.busy, 6), "peak": span.peak},
        }
        for span in spans
    ]
    return {"traceEvents": names + events, "displayTimeUnit": "ms"}
