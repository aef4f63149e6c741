from suite.manifests import catalog
from suite.manifests.tracks import FrameworkTrack, Track, configuration


def test_runtime_settings_join_a_tracks_rules_and_a_frameworks_settings() -> None:
    rules = Track(name="t", title="t", threads="cores", tf32=True, environment={"A": "rule"})
    own = FrameworkTrack(settings={"search": True}, environment={"B": "own"})
    found = rules.runtime_settings(own)
    assert (found.threads, found.tf32) == ("cores", True)
    assert (found.environment, found.settings) == ({"A": "rule", "B": "own"}, {"search": True})


def test_only_the_default_track_lets_frameworks_choose_their_threads() -> None:
    own = [name for name, track in catalog.tracks().items() if track.threads == "own"]
    assert own == ["default"]


def test_a_configuration_is_the_name_that_the_command_line_takes() -> None:
    assert configuration("pytorch", "eager", "equal") == "pytorch:eager"
    assert configuration("pytorch", "compiled", "tuned") == "pytorch:compiled/tuned"
