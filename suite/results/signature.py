"""SSH signatures of files by `ssh-keygen -Y`: FILE.sig beside FILE, in the namespace `dlsuite`.

A signature says that the owner of a key vouches for the file. It holds no time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from suite.errors import NotVerified, UsageError
from suite.worker.programs import Answer, ask

NAMESPACE = "dlsuite"
PROGRAM = "ssh-keygen"
TIMEOUT_S = 30.0  # an agent may ask for a touch of a hardware key
LITERALS = ("ssh-", "ecdsa-", "sk-")  # how a public key begins, where git has it instead of a file


@dataclass(frozen=True, kw_only=True)
class Signer:
    """Who signs: a private key, or a public one whose private one an agent has."""

    key: Path

    def sign(self, file: Path) -> Path:
        """Write FILE.sig, in place of an older one; UsageError where the key cannot sign."""
        signature = signature_of(file)
        signature.unlink(missing_ok=True)
        command: list[str | Path] = [
            PROGRAM,
            "-q",
            "-Y",
            "sign",
            "-f",
            self.key,
            "-n",
            NAMESPACE,
            file,
        ]
        answer = ask(command, timeout_s=TIMEOUT_S)
        if answer.problem or not signature.is_file():
            reason = answer.problem or "it wrote no signature"
            raise UsageError(
                f"{file.name} cannot be signed with {self.key}: {reason}",
                hint=f"ssh-add {self.key}, or --key FILE",
            )
        return signature

    def check(self) -> None:
        """Sign a file of one's own, so that a key that cannot sign is known before the runs."""
        with tempfile.TemporaryDirectory(prefix="dlsuite-") as place:
            file = Path(place) / "test"
            file.write_text("test")
            self.sign(file)


def signer(key: Path | None) -> Signer:
    """The signer with `key`, else git's user.signingkey, else ~/.ssh/id_ed25519.

    Raise UsageError where there is none, or it cannot sign.
    """
    chosen = key or _of_git() or Path("~/.ssh/id_ed25519").expanduser()
    if not chosen.is_file():
        raise UsageError(
            f"{chosen}: no such key", hint="--key FILE, or ssh-keygen -t ed25519 makes one"
        )
    found = Signer(key=chosen.absolute())
    found.check()
    return found


def _of_git() -> Path | None:
    """git's user.signingkey where it is a file; a key that it has as text is left to --key."""
    text = ask(["git", "config", "--get", "user.signingkey"], timeout_s=TIMEOUT_S).output.strip()
    if not text or text.startswith((*LITERALS, "key::")):
        return None
    path = Path(text).expanduser()
    return path if path.is_file() else None  # of GPG, it is the id of a key


def signature_of(file: Path) -> Path:
    """The signature of a file."""
    return file.with_name(f"{file.name}.sig")


def verified(file: Path, signers: Path, principal: str | None = None) -> str:
    """The principal in the file `signers` (see ALLOWED SIGNERS in ssh-keygen(1)) who signed `file`.

    Raise NotVerified where there is no signature, or it is not that of `principal` or, without
    one, of anybody in `signers`.
    """
    signature = signature_of(file)
    if not signature.is_file():
        raise NotVerified(f"{file}: not signed", hint="dlsuite export --sign")
    if principal is None:
        answer = ask(
            [PROGRAM, "-Y", "find-principals", "-s", signature, "-f", signers], timeout_s=TIMEOUT_S
        )
        found = answer.output.split("\n", 1)[0].split(",", 1)[0].strip()
        if answer.problem or not found:
            raise _refused(file, signers, answer)
        principal = found
    command: list[str | Path] = [
        PROGRAM,
        "-Y",
        "verify",
        "-f",
        signers,
        "-I",
        principal,
        "-n",
        NAMESPACE,
    ]
    command += ["-s", signature]
    answer = ask(command, timeout_s=TIMEOUT_S, stdin=file)
    if answer.problem:
        raise _refused(file, signers, answer)
    return principal


def _refused(file: Path, signers: Path, answer: Answer) -> NotVerified:
    reason = answer.problem or "nobody in it has this key"
    return NotVerified(
        f"{file}: not signed by anybody in {signers}, or changed since: {reason}",
        hint="ask for the run again, or for the signer's key",
    )


def allowed_signers(signer_: str) -> tuple[Path, str | None]:
    """The file and the principal of --signer FILE or --signer PRINCIPAL.

    A principal is looked up in git's gpg.ssh.allowedSignersFile, else in ~/.ssh/allowed_signers.
    Raise UsageError where there is no such file.
    """
    if Path(signer_).is_file():
        return Path(signer_), None
    command = ["git", "config", "--type=path", "--get", "gpg.ssh.allowedSignersFile"]
    of_git = ask(command, timeout_s=TIMEOUT_S).output.strip()
    file = Path(of_git or "~/.ssh/allowed_signers").expanduser()
    if not file.is_file():
        raise UsageError(
            f"--signer {signer_}: no such file, and {file} does not exist",
            hint='write a line "NAME ssh-ed25519 AAAA..." into a file, and --signer FILE',
        )
    return file, signer_
