"""The cache of the store is bounded by bytes and evicts what was used least recently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.cache import ByteCache


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 900)), max_size=60))
def test_the_size_is_bounded(puts: list[tuple[int, int]]) -> None:
    """Whatever is stored, the values and keys take `max_bytes` at most, and the last one is found."""
    cache = ByteCache(2000)
    for key, size in puts:
        cache.put(key, (key, size), size)
        assert cache.size <= 2000
        assert cache.get(key) == (key, size)


def test_the_least_recently_used_value_is_evicted() -> None:
    """A value that was read stays longer than one that was only stored."""
    cache = ByteCache(2000)
    for key in "abc":
        cache.put(key, key.upper(), 300)
    assert cache.get("a") == "A"
    cache.put("d", "D", 300)

    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_larger_than_the_cache_is_not_stored() -> None:
    """It would evict everything else; a smaller former value of its key is gone all the same."""
    cache = ByteCache(2000)
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    cache.put("a", 3, 5000)

    assert (cache.get("a"), cache.get("b")) == (None, 2)


def test_a_dropped_value_takes_no_space() -> None:
    """Dropping twice is allowed."""
    cache = ByteCache(2000)
    cache.put("a", 1, 10)
    cache.drop("a")
    cache.drop("a")

    assert (len(cache), cache.size) == (0, 0)
