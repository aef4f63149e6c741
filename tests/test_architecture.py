"""The structure of the code, beyond the contracts of import-linter in pyproject.toml."""

from functools import cache

import grimp

LONGEST_CHAIN = 12  # imports, from the command line to a module that imports none of the suite


def test_chains_of_imports_stay_short() -> None:
    """Whoever changes a module has to know those below it."""
    graph = grimp.build_graph("suite", exclude_type_checking_imports=True, cache_dir=None)

    @cache
    def chain(module: str) -> tuple[str, ...]:
        imported = graph.find_modules_directly_imported_by(module) - {"suite"}
        return (module, *max(map(chain, sorted(imported)), key=len, default=()))

    longest = max(map(chain, graph.modules), key=len)
    assert len(longest) - 1 <= LONGEST_CHAIN, " > ".join(longest)
