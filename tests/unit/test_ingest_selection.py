"""Which files a run looks at that reads only some of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence.ingest.selection import Selection

_paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
    lambda names: "/" + "/".join(names)
)


@given(chosen=st.sets(_paths, max_size=3), path=_paths)
def test_a_folder_stands_for_what_is_below_it(chosen: set[str], path: str) -> None:
    """A path is selected when it or a folder above it is; a walk goes through the folders that lead to one."""
    selection = Selection(chosen)
    selected = any(path == one or path.startswith(f"{one}/") for one in chosen)
    assert selection.has(path) == selected
    above = any(one.startswith(f"{path}/") for one in chosen)
    assert selection.leads_to(path) == (selected or above)
