"""Signatures by the real ssh-keygen."""

import shutil
import subprocess
from pathlib import Path

import pytest

from suite.errors import NotVerified, UsageError
from suite.results import signature

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="there is no ssh-keygen")


def key(place: Path, name: str, passphrase: str = "") -> Path:
    path = place / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that alice signed; signers.txt has her key and that of bob."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    file, lines = tmp_path / "SHA256SUMS", []
    file.write_text("abc")
    for name in ("alice", "bob"):
        made = key(tmp_path, name)
        lines.append(f"{name}@example.org {made.with_name(f'{name}.pub').read_text()}")
    (tmp_path / "signers.txt").write_text("".join(lines))
    signature.signer(tmp_path / "alice").sign(file)
    return file


def test_the_signer_is_found_and_a_principal_can_be_demanded(signed: Path, tmp_path: Path) -> None:
    signers = tmp_path / "signers.txt"
    assert signature.verified(signed, signers) == "alice@example.org"
    assert signature.verified(signed, signers, "alice@example.org") == "alice@example.org"
    with pytest.raises(NotVerified, match="not signed by anybody"):
        signature.verified(signed, signers, "bob@example.org")


def test_a_changed_file_an_unknown_signer_and_no_signature_are_refused(
    signed: Path, tmp_path: Path
) -> None:
    signers = tmp_path / "signers.txt"
    other = tmp_path / "others.txt"
    other.write_text("bob@example.org " + (tmp_path / "bob.pub").read_text())
    with pytest.raises(NotVerified, match="not signed by anybody"):
        signature.verified(signed, other)
    signed.write_text("abd")
    with pytest.raises(NotVerified, match="or changed since"):
        signature.verified(signed, signers)
    signature.signature_of(signed).unlink()
    with pytest.raises(NotVerified, match="SHA256SUMS: not signed"):
        signature.verified(signed, signers)


def test_a_key_that_is_missing_or_needs_a_passphrase_is_known_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "never")
    with pytest.raises(UsageError, match="id_ed25519: no such key"):
        signature.signer(None)
    with pytest.raises(UsageError, match="cannot be signed with"):
        signature.signer(key(tmp_path, "locked", "secret"))


def test_the_key_and_the_signers_of_git_are_used(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[user]\nsigningkey = {tmp_path}/bob\n"
        f'[gpg "ssh"]\nallowedSignersFile = {tmp_path}/signers.txt\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    signature.signer(None).sign(signed)
    signers, principal = signature.allowed_signers("bob@example.org")
    assert signature.verified(signed, signers, principal) == "bob@example.org"
    assert signature.allowed_signers(str(signers)) == (signers, None)
    config.write_text("")
    with pytest.raises(UsageError, match="no such file"):
        signature.allowed_signers("bob@example.org")
