from suite import manifest
from suite.tracks import OwnTrack, Track, means

RULES = Track(
    name="t", title="t", threads="cores", tf32=True, environment={"A": "rule", "B": "rule"}
)


def test_a_framework_adds_to_the_rules_and_may_set_a_variable_otherwise() -> None:
    own = OwnTrack(environment={"B": "own", "C": "own"}, settings={"search": True})
    found = RULES.conditions(own)
    assert found.environment == {"A": "rule", "B": "own", "C": "own"}
    assert (found.threads, found.tf32, found.settings) == ("cores", True, {"search": True})


def test_a_framework_that_declares_nothing_follows_the_rules_alone() -> None:
    assert RULES.conditions(OwnTrack()).environment == RULES.environment


def test_no_track_but_the_default_leaves_threads_to_chance() -> None:
    own = [name for name, track in manifest.tracks().items() if track.threads == "own"]
    assert own == ["default"]


def test_the_means_are_what_the_command_line_takes() -> None:
    assert means("pytorch", "eager", "equal") == "pytorch:eager"
    assert means("pytorch", "compiled", "tuned") == "pytorch:compiled/tuned"
