"""How many pairs of rows a run decides, as in docs/measurements/disturbances.md.

    scripts/decided_pairs.py RESULTS/RUN ...

For each run: the pairs of rows with a significant difference, of all and of those whose medians
differ by 15 % or more, and the blocks that were marked as disturbed.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

from suite.report import comparison
from suite.report.summary import summarise
from suite.results import store

LEAST = 1.15  # ratio of the rates of a pair


def main(folders: list[Path]) -> None:
    for folder in folders:
        records = store.read(folder)
        decided, large, of_large = 0, 0, 0
        pairs = [*combinations(summarise(records), 2)]
        for one, other in pairs:
            found = comparison.difference(one, other)
            is_large = max(found.ratio, 1 / found.ratio) >= LEAST
            shown = found.verdict in ("slower", "faster")
            decided += shown
            large += is_large
            of_large += is_large and shown
            if is_large and not shown:
                names = f"{comparison.name(one)}, {comparison.name(other)}"
                print(f"  not decided: {names}: ratio {found.ratio:.2f}, p {found.p_value}")
        blocks = [each for record in records for each in record.timed_blocks]
        marked = sum(each.disturbed for each in blocks)
        print(
            f"{folder.name}: {decided} of {len(pairs)} pairs decided, {of_large} of {large} that"
            f" differ by 15 % or more; {marked} of {len(blocks)} blocks marked"
        )


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
