"""The server: HTTP on this machine alone, a thread for each request, and no request that ends it."""

import json
import logging
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch

from kernels.serving.batches import Batches
from kernels.serving.door import Refused, read
from kernels.serving.export import load

MAX_BYTES = 1 << 20
SECONDS = 10.0


def serve(
    path: str | Path,
    port: int = 8000,
    max_bytes: int = MAX_BYTES,
    seconds: float = SECONDS,
    wait_ms: float = 2.0,
) -> ThreadingHTTPServer:
    """A server of the model in a file, on 127.0.0.1; `serve_forever()` runs it, `shutdown()` ends it.

    GET / says what the model takes. POST / with a JSON object of nested lists gives {"output": nested lists}; what is at
    fault gives {"error": a sentence that names the argument} and 4xx: 400 for what the door refuses, 404, 411 without a
    length, 413 for a body that is too large, 408 for one that does not come, 415 for another type. 503: it is too busy.

    Args:
        path: of a file that `kernels.serving.export` wrote. Load only files of your own.
        port: 0 for any that is free; `server_port` says which.
        max_bytes: of a request's body.
        seconds: that a body may take to come, and an answer to be computed.
        wait_ms: that a request waits for others to share a batch with.

    Raises:
        ValueError: there is no such model; a limit that is not positive.
    """
    for name, value in {"max_bytes": max_bytes, "seconds": seconds}.items():
        if not value > 0:
            raise ValueError(f"{name}: got {value!r}, expected more than 0")
    exported = load(path)
    batches = Batches(exported, wait_ms)
    takes = {one.name: {"dtype": one.dtype, "shape": one.shape, "values": one.values} for one in exported.inputs}

    class Handler(BaseHTTPRequestHandler):
        timeout = seconds

        def do_GET(self) -> None:
            self._answer(200, {"inputs": takes}) if self.path == "/" else self._answer(
                404, {"error": "path: expected /"}
            )

        def do_POST(self) -> None:
            try:
                output = batches.ask(read(self._body(), exported.inputs), seconds)
                if not torch.isfinite(output).all():
                    raise ArithmeticError("the model's output is not finite")
                self._answer(200, {"output": output.tolist()})
            except Refused as error:
                self._answer(error.status, {"error": str(error)})
            except OSError:  # they have gone, or do not come
                self.close_connection = True
            except Exception:
                logging.getLogger(__name__).exception("a request failed in the model")
                self._answer(500, {"error": "the model failed; the server's log says why"})

        def _body(self) -> bytes:
            if self.path != "/":
                raise Refused("path: expected /", 404)
            kind = self.headers.get_content_type()
            if kind != "application/json":
                raise Refused(f"Content-Type: got {kind[:40]}, expected application/json", 415)
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit()):
                raise Refused("Content-Length: got none, expected the bytes of the body", 411)
            if len(length) > 12 or int(length) > max_bytes:
                raise Refused(f"body: got {length[:12]} bytes, expected at most {max_bytes}", 413)
            try:
                body = self.rfile.read(int(length))
            except TimeoutError:
                raise Refused(f"body: not here within {seconds:g} seconds", 408) from None
            if len(body) < int(length):
                raise Refused(f"body: got {len(body)} bytes, expected {length}", 400)
            return body

        def _answer(self, status: int, content: dict) -> None:
            said = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            logging.getLogger(__name__).info(format, *args)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    return Server(("127.0.0.1", port), Handler)
