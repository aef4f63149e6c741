"""Asks a registry which image a name is, without a login, as a rented machine would.

The API: https://distribution.github.io/distribution/spec/api/
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

from suite.engines.docker.pins import Pushed
from suite.errors import EngineError, UsageError

ACCEPTED = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)
HOST = re.compile(r"localhost(:\d+)?|[\w-]+(\.[\w-]+)+(:\d+)?|[\w-]+:\d+")
LOCAL = re.compile(r"(localhost|127(\.\d+){3})(:\d+)?")  # where an engine does not ask for TLS
PARAMETER = re.compile(r'(\w+)="([^"]*)"')
TIMEOUT_S, LIMIT_BYTES = 20, 4 << 20
NOT_FOUND, NOT_ALLOWED, FORBIDDEN = 404, 401, 403


def image(name: str) -> Pushed | None:
    """The image REGISTRY/NAME:TAG; None where the registry has no such image.

    Raise UsageError where the name has no registry, EngineError where the registry does not answer,
    asks for a login, or the name is none of an image.
    """
    repository, _, tag = name.rpartition(":")
    host, _, path = repository.partition("/")
    if not HOST.fullmatch(host):
        raise UsageError(f"{host!r} is no registry", hint="registry.example.org/lab")
    url = f"{'http' if LOCAL.fullmatch(host) else 'https'}://{host}/v2/{path}/manifests/{tag}"
    try:
        body = _manifest(url)
        if body is None:
            return None
        image_id = str(json.loads(body)["config"]["digest"])
    except urllib.error.HTTPError as error:
        login = " without a login" if error.code in (NOT_ALLOWED, FORBIDDEN) else ""
        reason = f"is not readable{login}: HTTP {error.code} {error.reason}"
    except (OSError, http.client.HTTPException) as error:
        reason = f"is not readable: {getattr(error, 'reason', error)}"
    except (ValueError, LookupError, TypeError):
        reason = "is not the manifest of one image"
    else:
        digest = hashlib.sha256(body).hexdigest()
        return Pushed(reference=f"{repository}@sha256:{digest}", image_id=image_id)
    raise EngineError(f"{name} {reason}", hint="a registry that a rented machine can read")


def _manifest(url: str) -> bytes | None:
    """The manifest, with a token for everybody where the registry asks for one."""
    try:
        return _read(url)
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return None
        challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != NOT_ALLOWED or not challenge.startswith("Bearer "):
            raise
    asked = dict(PARAMETER.findall(challenge))
    values: Any = json.loads(_read(f"{asked.pop('realm')}?{urlencode(asked)}"))
    try:
        return _read(url, Authorization=f"Bearer {values.get('token') or values['access_token']}")
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return None
        raise


def _read(url: str, **headers: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": ", ".join(ACCEPTED), **headers})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
        return bytes(reply.read(LIMIT_BYTES))
