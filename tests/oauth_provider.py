"""A provider of OAuth tokens for tests: one key at a time, a token endpoint, and its keys as a
JWKS, over HTTP or TLS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://provider.example"
AUDIENCE = "kafka"
CLIENT_ID, CLIENT_SECRET = "payments", "oauth-s3cret"


class Provider:
    """The provider's state, which a test may change while it serves."""

    def __init__(self, algorithm: str = "RS256") -> None:
        self.algorithm = algorithm
        self.lifetime_s = 300
        self.requests: list[str] = []
        """The paths of all requests so far."""
        self.fails = False
        """Whether it answers everything with 503."""
        self.url = ""
        self.rotate("key-1")

    def rotate(self, key_id: str) -> None:
        """Replace the key."""
        self.key_id = key_id
        self.key: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if self.algorithm.startswith("ES")
            else rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )

    @property
    def jwks(self) -> dict[str, Any]:
        kind = ECAlgorithm if self.algorithm.startswith("ES") else RSAAlgorithm
        public = json.loads(kind.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "use": "sig"}]}

    def token(self, name: str = CLIENT_ID, **claims: Any) -> str:
        """A token; a claim of None is left out."""
        now = int(time.time())
        usual = {
            "sub": name,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self.lifetime_s,
            "scope": "kafka.write",
        }
        said = {k: v for k, v in (usual | claims).items() if v is not None}
        return jwt.encode(said, self.key, self.algorithm, {"kid": self.key_id})

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"


@contextmanager
def running_provider(
    algorithm: str = "RS256", tls: ssl.SSLContext | None = None
) -> Iterator[Provider]:
    """A provider that serves on 127.0.0.1."""
    provider = Provider(algorithm)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.requests.append(self.path)
            if provider.fails:
                self._answer(503, {})
            elif self.path == "/jwks":
                self._answer(200, provider.jwks)
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            provider.requests.append(self.path)
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            if provider.fails:
                self._answer(503, {})
            elif self.headers["Authorization"] != f"Basic {pair}":
                self._answer(401, {"error": "invalid_client"})
            elif form["grant_type"] != ["client_credentials"]:
                self._answer(400, {"error": "unsupported_grant_type"})
            else:
                scope = form.get("scope", ["kafka.write"])[0]
                answer = {
                    "access_token": provider.token(scope=scope),
                    "token_type": "Bearer",
                    "expires_in": provider.lifetime_s,
                }
                self._answer(200, answer)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    provider.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
