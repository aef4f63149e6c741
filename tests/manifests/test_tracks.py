from suite.manifests import catalog
from suite.manifests.tracks import FrameworkTrack, Track


def test_a_framework_adds_its_settings_to_the_rules() -> None:
    rules = Track(name="t", title="t", threads="cores", tf32=True, environment={"A": "rule"})
    found = rules.conditions(FrameworkTrack(settings={"search": True}))
    assert (found.threads, found.tf32) == ("cores", True)
    assert (found.environment, found.settings) == ({"A": "rule"}, {"search": True})


def test_no_track_but_the_default_leaves_threads_to_chance() -> None:
    own = [name for name, track in catalog.tracks().items() if track.threads == "own"]
    assert own == ["default"]


def test_the_means_are_what_the_command_line_takes() -> None:
    assert configuration("pytorch", "eager", "equal") == "pytorch:eager"
    assert configuration("pytorch", "compiled", "tuned") == "pytorch:compiled/tuned"
