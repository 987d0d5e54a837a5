"""Where the server is, and the proxy on the way."""
from __future__ import annotations

import base64
import ipaddress
import os
import ssl
from typing import Dict, Optional
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment

from .errors import Invalid

DEFAULT_URL = "http://127.0.0.1:8080"


class Address:
    """The parsed URL of a server. ``connect_host`` and ``connect_port`` are those of the proxy, if there is one."""

    def __init__(self, url: Optional[str] = None, tls: Optional[ssl.SSLContext] = None) -> None:
        url = url or os.environ.get("PENSTOCK_URL") or DEFAULT_URL
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname or ""
        except ValueError as error:
            raise Invalid(str(error), "url") from None
        if parts.scheme == "unix" and not parts.netloc and parts.path:
            self.socket: Optional[str] = unquote(parts.path)
            self.host, self.port, self.prefix, self.tls = "localhost", 80, "", None
        else:
            if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
                raise Invalid(f"must be a URL such as {DEFAULT_URL} or unix:///run/penstock.sock", "url")
            if parts.username is not None:
                raise Invalid("must not have a user or password; give a token", "url")
            self.socket = None
            self.host, self.prefix = host, parts.path.rstrip("/")
            self.tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
            self.port = port or (443 if self.tls else 80)
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        self.authority = name if self.port == usual else f"{name}:{self.port}"
        self.base = f"http{'s' if self.tls else ''}://{self.authority}{self.prefix}"  # of a socket, at localhost
        self.shown = f"unix://{self.socket}" if self.socket else self.base
        self.proxy_headers: Dict[str, str] = {}
        self.connect_host, self.connect_port, self.proxied = self.host, self.port, False
        proxy = None if self.socket else self._proxy(parts.scheme)
        if proxy:
            self._go_through(proxy)

    @property
    def tunnel(self) -> bool:
        """Whether the proxy is asked to CONNECT."""
        return self.proxied and self.tls is not None

    def target(self, path: str) -> str:
        """Return the request target of a path."""
        path = self.prefix + path
        return f"http://{self.authority}{path}" if self.proxied and self.tls is None else path

    def connect_request(self) -> bytes:
        """Return the request that makes the proxy connect to the server."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"CONNECT {name}:{self.port} HTTP/1.1", f"Host: {name}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in self.proxy_headers.items()]
        return "\r\n".join(lines + ["", ""]).encode("ascii")

    def _proxy(self, scheme: str) -> Optional[str]:
        if self.host == "localhost" or _loopback(self.host):  # a proxy has another loopback
            return None
        proxies = getproxies_environment()
        if any(proxy_bypass_environment(host, proxies) for host in (self.host, f"{self.host}:{self.port}")):
            return None
        return proxies.get(scheme) or proxies.get("all")

    def _go_through(self, proxy: str) -> None:
        parts = urlsplit(proxy if "://" in proxy else "http://" + proxy)
        if parts.scheme != "http" or not parts.hostname:
            raise Invalid("only proxies with http:// URLs are supported", "proxy")
        self.connect_host, self.connect_port, self.proxied = parts.hostname, parts.port or 80, True
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.proxy_headers["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
