"""Who may ask: Host and Origin are checked always, a token where there is one.

Any web page can make a browser send requests to 127.0.0.1. A page of another site is known by its
Origin or by Sec-Fetch-Site; one that has its own name point here (DNS rebinding) by the Host.
"""

import hmac
import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from nearkin.serve.errors import Refused

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16
OPEN = ("/", "/health", "/docs", "/static/")  # answered without a token: they hold no data
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Guard:
    """What a request must show.

    Parameters
    ----------
    host : where the service listens
    names : further names that it is reached by, for example through a proxy
    token : what ``Authorization: Bearer …`` must hold, if anything
    """

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)

    def check(self, path: str, headers: dict[str, str]) -> None:
        """Refuse a request by its headers, whose names are in lower case."""
        host = headers.get("host", "")
        if not self._is_mine(_name(host)):
            raise Refused(421, f"Host {host[:80]!r} is not served here; give --allow-host", "Host")
        self._check_site(path, host, headers)
        if self.token is not None and not (path in OPEN or path.startswith(OPEN[-1])):
            self._check_token(headers.get("authorization", ""))

    def _is_mine(self, name: str) -> bool:
        if name in self.names or name == self.host:
            return True
        if is_loopback(self.host):
            return name in LOOPBACK
        # A name can be made to point here by anybody; an address cannot.
        return _is_address(name) or name in (*LOOPBACK, socket.gethostname().lower())

    def _check_site(self, path: str, host: str, headers: dict[str, str]) -> None:
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, f"Origin {origin[:80]!r} is another site", "Origin")
        site, opened = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode") == "navigate"
        followed_link = opened and path in ("/", "/docs")
        if site not in (None, "same-origin", "none") and not followed_link:
            raise Refused(403, "the request comes from a page of another site", "Sec-Fetch-Site")

    def _check_token(self, given: str) -> None:
        kind, _, token = given.partition(" ")
        expected = (self.token or "").encode()
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), expected):
            raise Refused(
                401, "a token is needed: send 'Authorization: Bearer TOKEN'", "Authorization"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host in LOOPBACK or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The name or address in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def read_token(path: Path | None, variable: str | None) -> str | None:
    """The token of a file, or of the environment; never of the command line, which ``ps`` shows."""
    token, source = variable, "NEARKIN_TOKEN"
    if path is not None:
        from nearkin.io.files import read_lines

        lines = read_lines(path, "a text file with the token on its first line")
        token, source = lines[0] if lines else "", f"--token-file {path}"
    if token is None:
        return None
    token = token.strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ValueError(
            f"{source} holds a token of {len(token)} characters; at least {SHORTEST_TOKEN} of "
            "ASCII are needed, such as those that 'openssl rand -hex 32' prints"
        )
    return token


def check_reach(host: str, token: str | None, no_token: bool) -> None:
    """Refuse to be reached from other machines by anybody, unless that is asked for."""
    if token is None and not no_token and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached from other machines, and there is no token; give "
            "--token-file FILE, or --no-token if anybody may ask"
        )
