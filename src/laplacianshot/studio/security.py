"""Who may ask: only the browser that was given the token, on this very address.

Every request is checked before anything else sees it: the Host it names (against DNS rebinding), the Origin it comes
from (against other pages), the token (against other users of this machine), and the size of its body. Every answer says
what a browser may do with it.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# Bytes of a body: of an action, and of a file of labels.
MAX_BODY = 16_000_000
MAX_UPLOAD = 64_000_000
UPLOAD_PATH = "/api/import"
_ANY = ("0.0.0.0", "::")
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Gate:
    """What opens the door.

    Attributes
    ----------
    token : str
    host : str
        Address that the server listens on.
    port : int
    """

    token: str
    host: str
    port: int

    @property
    def cookie(self) -> str:
        """Name of the cookie; cookies do not tell ports apart."""
        return f"laplacianshot-studio-{self.port}"

    @property
    def address(self) -> str:
        """What a person opens."""
        shown = "127.0.0.1" if self.host in _ANY else self.host
        return f"http://{_bracketed(shown)}:{self.port}/?token={self.token}"

    def knows_host(self, host: str) -> bool:
        """Whether this server goes by that name: its own address, or any plain address where it listens on all."""
        name, port = _split_port(host)
        if port != str(self.port):
            return False
        if name in _LOCAL or name == self.host.lower():
            return True
        return self.host in _ANY and _is_address(name)

    def has_token(self, headers: Headers) -> bool:
        """Whether a request carries the token, as a cookie or as a bearer."""
        given = headers.get("authorization", "")
        if given[:7].lower() == "bearer " and self.is_token(given[7:].strip()):
            return True
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            return False
        return self.cookie in cookies and self.is_token(cookies[self.cookie].value)

    def is_token(self, given: str) -> bool:
        """Whether this is the token; takes as long for a near miss as for any other."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guard:
    """ASGI middleware that lets through what the gate opens for.

    Parameters
    ----------
    app : ASGI application
    gate : Gate
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on or refuse it, and put the headers on the answer."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(guarded, *refusal)
            return
        if scope["path"] == "/" and b"token=" in scope["query_string"]:
            await self._let_in(scope, guarded)
            return
        if not self._gate.has_token(headers):
            await _answer(guarded, 401, "open the address that laplacianshot studio printed, with its token.")
            return
        most = MAX_UPLOAD if scope["path"] == UPLOAD_PATH else MAX_BODY
        length = headers.get("content-length", "0")
        too_large = f"the body has more than {most:,} bytes."
        if not length.isascii() or not length.isdigit() or int(length) > most:
            await _answer(guarded, 413, too_large)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise HTTPException(413, too_large)
            return message

        await self._app(scope, counted, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Why a request is refused whatever token it has."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._gate.knows_host(hosts[0]):
            return 403, "this server does not go by that name; open the address that it printed."
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return 403, "requests of other pages are refused."
        # Sent by browsers alone. Following a link to the page itself is fine, anything else from elsewhere is not.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not (scope["method"] == "GET" and scope["path"] == "/"):
            return 403, "requests of other pages are refused."
        return None

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """Put the token into a cookie and out of the address bar."""
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["method"] not in ("GET", "HEAD") or len(tokens) != 1 or not self._gate.is_token(tokens[0]):
            await _answer(send, 401, "this is not the token that laplacianshot studio printed.")
            return
        cookie = f"{self._gate.cookie}={self._gate.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def _answer(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _split_port(host: str) -> tuple[str, str]:
    """Name and port of a Host header; ``80`` where there is none."""
    name, mark, port = host.rpartition(":")
    if not mark or (":" in name and not name.endswith("]")):
        return host.strip("[]").lower(), "80"
    return name.strip("[]").lower(), port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
