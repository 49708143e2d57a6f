"""Access control: only a client with the token, at the address of this server.

Every request is checked first: its Host (against DNS rebinding), its Origin (against other pages), the token (against
other users of this machine), and the size of its body. Every response has headers that restrict what a browser may do.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
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
# Maximum number of bytes of a request: of actions on a million items, of a labels file, of all others.
MAX_BODY = 16_000_000
MAX_UPLOAD = 64_000_000
MAX_SMALL_BODY = 64_000
_LIMITS = {"/api/label": MAX_BODY, "/api/accept": MAX_BODY, "/api/names": MAX_BODY, "/api/import": MAX_UPLOAD}
_ANY = ("0.0.0.0", "::")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def studio_limit(path: str) -> int:
    """Return the maximum number of bytes of a request to the studio."""
    return _LIMITS.get(path, MAX_SMALL_BODY)


@dataclass(frozen=True)
class Gate:
    """The token of a server, and the host and port that it listens on.

    Without a token (``""``) every client is let in. With ``any_name`` the server may be called by any name, as behind a
    proxy. ``public`` paths need no token; ``advice`` says how to send it.
    """

    token: str
    host: str
    port: int
    any_name: bool = False
    public: frozenset[str] = frozenset()
    advice: str = "open the address that laplacianshot studio printed, including its token."

    @property
    def cookie(self) -> str:
        """Name of the cookie. It contains the port, as browsers share cookies between ports."""
        return f"laplacianshot-studio-{self.port}"

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"{self.base}/?token={self.token}"

    @property
    def base(self) -> str:
        """The address without the token."""
        shown = "127.0.0.1" if self.host in _ANY else self.host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    def knows_host(self, host: str) -> bool:
        """Whether a Host header is valid: our own address, or any IP address if we listen on all."""
        if self.any_name:
            return True
        name, port = _split_port(host)
        if port != str(self.port):
            return False
        if name in _LOCAL or name == self.host.lower():
            return True
        return self.host in _ANY and _is_address(name)

    def has_token(self, headers: Headers) -> bool:
        """Whether a request has the token, as a cookie or as a bearer token."""
        if not self.token:
            return True
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
        """Whether this is the token; compared in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guard:
    """ASGI middleware that refuses requests without permission, and adds the security headers.

    ``limit`` gives the maximum number of bytes of a request by its path.
    """

    def __init__(self, app: ASGIApp, gate: Gate, limit: Callable[[str], int] = studio_limit) -> None:
        self._app, self._gate, self._limit = app, gate, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on or answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise HTTPException(413, _too_large(limit))
            return message

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._answer(scope, Headers(scope=scope), limit)
        await (answer or self._app)(scope, counted, guarded)

    def _answer(self, scope: Scope, headers: Headers, limit: int) -> Response | None:
        """Return the answer to a request that is not passed on."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._gate.knows_host(hosts[0]):
            return _refusal(403, "this is not the address of this server; open the address that it printed.")
        origin = headers.get("origin")
        # Only browsers send this. A link from elsewhere to the page itself is allowed, nothing else is.
        site = headers.get("sec-fetch-site", "none")
        is_link = scope["method"] == "GET" and scope["path"] == "/"
        if origin not in (None, f"http://{hosts[0]}") or (site not in ("same-origin", "none") and not is_link):
            return _refusal(403, "requests from other pages are refused.")
        if scope["path"] == "/" and self._gate.token and b"token=" in scope["query_string"]:
            return self._let_in(scope)
        if scope["path"] not in self._gate.public and not self._gate.has_token(headers):
            return _refusal(401, self._gate.advice)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            return _refusal(413, _too_large(limit))
        return None

    def _let_in(self, scope: Scope) -> Response:
        """Move the token from the address bar into a cookie."""
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["method"] not in ("GET", "HEAD") or len(tokens) != 1 or not self._gate.is_token(tokens[0]):
            return _refusal(401, "this is not the token that laplacianshot studio printed.")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._gate.cookie, self._gate.token, httponly=True, samesite="strict")
        return answer


def _refusal(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status, {"www-authenticate": "Bearer"} if status == 401 else None)


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit:,} bytes."


def _split_port(host: str) -> tuple[str, str]:
    """Return the name and port of a Host header; the default port is ``80``."""
    name, mark, port = host.rpartition(":")
    if not mark or (":" in name and not name.endswith("]")):
        return host.strip("[]").lower(), "80"
    return name.strip("[]").lower(), port


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
