"""Connects to a Docker engine, and converts the SDK's exceptions."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import requests
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.credentials.errors import StoreError
from docker.errors import (
    APIError,
    ContextException,
    DockerException,
    InvalidConfigFile,
    TLSParameterError,
)
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env
from docker.utils.config import find_config_file
from urllib3.exceptions import HTTPError

import docker
from suite.engines.docker.credentials import Credentials
from suite.engines.errors import EngineLost, EngineMisconfigured
from suite.errors import EngineError

NO_ENGINE = "start Docker or set DOCKER_HOST, or use --engine venv"
TLS = (
    "DOCKER_HOST=tcp://HOST:2376, DOCKER_TLS_VERIFY=1, and ca.pem, cert.pem and key.pem in"
    " DOCKER_CERT_PATH; without TLS, unset DOCKER_TLS_VERIFY and DOCKER_CERT_PATH"
)
# The connection ended: no statement about keys and certificates.
TLS_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
ANSWER_S = 60  # to the first requests: whether an engine is there
# What the SDK raises for a failed connection. For settings that it does not expect, which it does
# not check, it raises any other exception.
FAILURES = (requests.RequestException, DockerException, HTTPError, OSError)
# Of each later request; streams have none. To create or remove a container may take minutes on a
# slow disk or a busy engine.
REQUEST_S = 600


def connect(address: str | None = None, *, timeout_s: int = REQUEST_S) -> Any:
    """The SDK's client of the engine at `address`, for example ssh://user@host.

    Without `address`: the engine that DOCKER_HOST or the current Docker context names.
    `timeout_s` is the limit of a request after the first.
    """
    try:
        client = within(ANSWER_S, lambda: _client(address))  # asks for the engine's version
        client.api._auth_configs = Credentials.of(client.api._auth_configs)
    except (ContextException, InvalidConfigFile) as error:
        raise _unusable(address, str(error)) from None
    except (EngineError, *FAILURES):
        raise
    except Exception as error:
        raise _unusable(address, f"{type(error).__name__}: {error}") from None
    client.api.timeout = timeout_s
    return client


def _unusable(address: str | None, reason: str) -> EngineMisconfigured:
    """The error where the address of the engine or a file of Docker has wrong values."""
    host = address or os.environ.get("DOCKER_HOST")
    places = [*filter(None, (host, find_config_file()))]
    return EngineMisconfigured(
        f"Docker's settings cannot be used: {' '.join(reason.split())} ({', '.join(places)})",
        hint="docker info; then correct DOCKER_HOST, config.json or the context that it names",
    )


def within(limit_s: float, work: Callable[[], Any]) -> Any:
    """The result of some requests; requests.Timeout where they take longer.

    The limit of a request holds for each read: a proxy that sends a byte now and then keeps it.
    """
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return result.result(limit_s)
    except TimeoutError:
        if result.done():  # the exception of the work itself
            raise
        raise requests.Timeout(f"no whole answer within {limit_s:g} s") from None


class EngineTls(TLSConfig):  # type: ignore[misc]
    """Keys and certificates of an engine.

    Requests would take the authorities in REQUESTS_CA_BUNDLE, where it is set, in place of the
    engine's.
    """

    def configure_client(self, client: Any) -> None:
        super().configure_client(client)
        client.trust_env = False

    @staticmethod
    def of(tls: TLSConfig | None) -> EngineTls | None:
        """The same keys and certificates; None where there are none."""
        if not tls:
            return None
        return EngineTls(client_cert=tls.cert, ca_cert=tls.ca_cert, verify=tls.verify)


def _client(address: str | None) -> Any:
    options: dict[str, Any] = {"timeout": ANSWER_S, "use_ssh_client": True}
    if address:
        return docker.DockerClient(base_url=address, **options)
    if host := os.environ.get("DOCKER_HOST"):  # as for docker itself, it comes before a context
        tls = EngineTls.of(kwargs_from_env().get("tls"))
        return docker.DockerClient(base_url=host, tls=tls, **options)
    context = _context()
    if context.name == "default":
        return docker.from_env(**options)
    return docker.DockerClient(
        base_url=context.Host, tls=EngineTls.of(context.TLSConfig), **options
    )


def _context() -> Any:
    """The Docker context that the user's settings name; EngineMisconfigured where it is missing."""
    name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name() or "default"
    context = ContextAPI.get_context(name)
    if context is None:
        raise EngineMisconfigured(
            f"there is no Docker context {name!r}",
            hint="docker context ls; then set DOCKER_CONTEXT, or: docker context use NAME",
        )
    return context


@contextmanager
def sdk_errors(address: str | None = None) -> Iterator[None]:
    """Convert the SDK's exceptions to EngineError, EngineLost and EngineMisconfigured."""
    try:
        yield
    except APIError as error:
        reason = " ".join(str(error.explanation or error).split())  # a proxy sends a whole page
        hint = TLS if "HTTPS server" in reason else "dlsuite doctor"
        raise EngineError(f"the engine refused: {reason}", hint=hint) from None
    except TLSParameterError as error:
        raise EngineMisconfigured(
            f"TLS to the engine is not set up: {error.msg}", hint=TLS
        ) from None
    except StoreError as error:
        raise _no_credentials(error) from None
    except FAILURES as error:
        if isinstance(error.__cause__, StoreError):
            raise _no_credentials(error.__cause__) from None
        if problem := _tls_problem(error):
            raise EngineMisconfigured(f"TLS to the engine fails: {problem}", hint=TLS) from None
        reason, hint = _cause(error, address or _host())
        if address:
            message = f"no Docker engine answers at {address}: {reason}"
            hint = f"docker --host {address} info"
        else:
            message = f"no Docker engine answers: {reason}"
        raise EngineLost(message, hint=hint) from None


def _host() -> str | None:
    """The address that the user's settings name; None of the default one."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    try:
        context = _context()
    except Exception:  # see FAILURES
        return None
    return None if context.name == "default" else str(context.Host)


def _no_credentials(error: StoreError) -> EngineMisconfigured:
    """The error where a helper for the credentials of registries is missing or fails."""
    file = find_config_file() or "~/.docker/config.json"
    return EngineMisconfigured(
        f"{file} names a credential helper that gives no credentials: {error}",
        hint=f"install the helper, or remove credsStore and credHelpers from {file}",
    )


def _tls_problem(error: BaseException) -> str | None:
    """What TLS says where keys or certificates do not fit."""
    for inner in _nested(error):
        if isinstance(inner, ssl.SSLError) and not isinstance(inner, TLS_ENDS):
            return str(inner)
    return None


def _cause(error: BaseException, address: str | None) -> tuple[str, str]:
    """The system's reason for a failed connection, from the SDK's nested exceptions; and a hint."""
    for inner in _nested(error):
        if isinstance(inner, PermissionError):
            reason = f"no permission for {address or 'its socket'}"
            return reason, "join the group docker and log in again, or sudo"
        if isinstance(inner, FileNotFoundError):
            if inner.filename == "ssh":
                return "ssh is not on PATH", "install an SSH client, or set DOCKER_HOST"
            return f"there is no socket at {address or 'its default path'}", NO_ENGINE
    return str(error), NO_ENGINE


def _nested(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it contains or follows."""
    inner: BaseException | None = error
    while inner is not None:
        yield inner
        wrapped = next((arg for arg in inner.args if isinstance(arg, BaseException)), None)
        inner = wrapped or inner.__cause__ or inner.__context__
