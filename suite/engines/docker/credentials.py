"""The credentials for registries, from the programs that Docker's config.json names.

The SDK waits for a helper without a limit of time, and takes what it prints for credentials.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from docker.auth import AuthConfig
from docker.credentials.errors import CredentialsNotFound, StoreError
from docker.credentials.store import Store
from docker.errors import InvalidConfigFile

from suite.worker.programs import ask

TIMEOUT_S = 60.0  # a helper may ask the user to unlock its store
NOT_FOUND = "credentials not found in native keychain"  # printed by helpers without an entry


class Credentials(AuthConfig):  # type: ignore[misc]
    """The SDK's credentials, from helpers with a limit of time."""

    @classmethod
    def of(cls, found: AuthConfig) -> Credentials:
        """The same credentials; raise InvalidConfigFile where credHelpers is no object."""
        if not isinstance(found.cred_helpers, dict):
            raise InvalidConfigFile("credHelpers is no object of registries and helpers")
        return cls(found)

    def _get_store_instance(self, name: str) -> Helper:
        return Helper(name)


class Helper(Store):  # type: ignore[misc]
    """A program docker-credential-NAME; StoreError with its reason where it does not answer."""

    def __init__(self, name: str) -> None:
        self.program = f"docker-credential-{name}"

    def get(self, server: str) -> dict[str, str]:
        """User and secret for a registry; CredentialsNotFound where the helper has none."""
        found = self._answer("get", server)
        texts = [found.get(name) for name in ("Username", "Secret")]
        if not all(isinstance(each, str) for each in texts):
            raise StoreError(f"{self.program} prints no Username and Secret")
        if not any(texts):
            raise CredentialsNotFound(f"{self.program} has none for {server}")
        return found

    def list(self) -> dict[str, str]:
        """The user for each registry that the helper knows."""
        return self._answer("list", "")

    def _answer(self, request: str, text: str) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as given:
            given.write(text)
            given.flush()
            answer = ask([self.program, request], timeout_s=TIMEOUT_S, stdin=Path(given.name))
        if NOT_FOUND in answer.output:
            raise CredentialsNotFound(f"{self.program} has none for {text}")
        if answer.problem:
            raise StoreError(answer.problem)
        try:
            found = json.loads(answer.output)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StoreError(f"{self.program} prints no JSON object")
        return found
