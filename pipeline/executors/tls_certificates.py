"""Whether a Dask scheduler and this client trust each other's certificates, before Dask tries."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution

ANSWERS_S = 5.0  # that one try may take


def security_of(execution: Execution) -> Any:
    """Return how to talk to a given cluster: in the clear, or over TLS with the files named.

    Raises
    ------
    BadInput
        When one of the files is not there, or is no certificate or key.
    """
    if execution.tls_ca is None:
        return None
    import distributed  # noqa: PLC0415 - half a second that a run without Dask need not wait

    files = (execution.tls_ca, execution.tls_cert, execution.tls_key)
    missing = [file for file in files if file is None or not Path(file).is_file()]
    if missing:
        raise BadInput(f"There is no file {missing[0]}. Check `tls_ca`, `tls_cert` and `tls_key`.")
    make: Any = distributed.Security
    made = make(
        tls_ca_file=files[0],
        tls_client_cert=files[1],
        tls_client_key=files[2],
        require_encryption=True,
    )
    try:
        made.get_connection_args("client")
    except ssl.SSLError as error:
        raise BadInput(
            f"{', '.join(map(str, files))} are no certificates and key that go together "
            f"({error.reason}). Check `tls_ca`, `tls_cert` and `tls_key`."
        ) from error
    return made


def require_trust(scheduler: str, security: Any) -> None:
    """Shake hands once: Dask would try for half a minute what can never go well.

    Where nobody answers this says nothing: that may change while Dask tries.  Other transports
    than Dask's own, such as Dask Gateway's, shake hands in their own way.

    Raises
    ------
    BadInput
        When one of the two refuses the other's certificate, or the scheduler talks in the clear.
    """
    from distributed.comm.addressing import parse_address, parse_host_port  # noqa: PLC0415

    transport, place = parse_address(scheduler)
    if transport not in ("tcp", "tls"):
        return
    context: ssl.SSLContext = security.get_connection_args("client")["ssl_context"]
    try:
        with (
            socket.create_connection(parse_host_port(place), ANSWERS_S) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.recv(1)  # since TLS 1.3 a refusal comes with the first byte
    except ssl.SSLCertVerificationError as error:
        raise BadInput(
            f"The certificate of the Dask scheduler at {scheduler} is not signed by `tls_ca` "
            f"({error.verify_message}). Name the authority that signed it."
        ) from error
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            raise BadInput(
                f"The Dask scheduler at {scheduler} does not talk over TLS. Start it so that "
                "it does (docs/operations.md), or leave `tls_ca`, `tls_cert` and `tls_key` out."
            ) from error
        raise BadInput(
            f"The Dask scheduler at {scheduler} refuses `tls_cert` ({error.reason}). Have "
            "it signed by the authority that the scheduler was started with."
        ) from error
    except OSError:
        return
