import pytest

from laplacianshot.runtime.limits import MemoryPlan, larger, parse_bytes, written_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("8GB", 8 * 10**9), ("8 gib", 8 * 2**30), ("1.5MB", 1_500_000), ("300", 300), ("2G", 2 * 10**9), (2e9, 2 * 10**9)],
)
def test_budgets_are_read(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GB", "eight", "-1GB", "1PB", 0, -5, float("nan"), float("inf"), "0"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(ValueError, match="memory is"):
        parse_bytes(text)


def test_a_plan_that_does_not_fit_names_its_largest_parts():
    plan = MemoryPlan({"a": 100.0, "graph": 3e9, "rows": 1e9, "sums": 5e8})
    plan.check(None)
    plan.check(5 * 10**9)
    with pytest.raises(MemoryError) as caught:
        plan.check(10**9, advice="buy more")
    assert str(caught.value) == (
        "memory=1 GB cannot be kept: this needs 4.5 GB (graph 3 GB, rows 1 GB, sums 500 MB); buy more."
    )


def test_the_larger_of_two_moments_counts():
    small, big = MemoryPlan({"a": 1.0, "b": 2.0}), MemoryPlan({"c": 4.0})
    assert larger(small, big) is big
    assert written_bytes(big.total) == "4 B"
