import http from "node:http";
import https from "node:https";
import tls from "node:tls";
import { Misuse } from "./errors.js";

/** Route is how requests reach the server. */
export interface Route {
  origin: URL;
  agent: http.Agent;
  secure: boolean;
  socketPath?: string;
  /** The proxy of plain HTTP, which gets requests in absolute form. */
  forward?: { host: string; port: number; authorization?: string };
}

// Below the idle timeout of the server (2 minutes) and of usual load balancers, so that a request seldom meets a
// connection that is just being closed.
const agentOptions = { keepAlive: true, timeout: 30_000 };

/** routeTo returns the route to a server: direct, through a Unix socket, or through the environment's proxy. */
export function routeTo(url: string, env: NodeJS.ProcessEnv = process.env): Route {
  let origin: URL;
  try {
    origin = new URL(url);
  } catch {
    throw new Misuse("url: must be a URL such as http://127.0.0.1:8080 or unix:///run/penstock.sock", "url");
  }
  if (origin.search || origin.hash) throw new Misuse("url: must not have a query or fragment", "url");
  if (origin.username || origin.password) throw new Misuse("url: must not contain a password; use the option token", "url");
  if (origin.protocol === "unix:") {
    if (origin.host || origin.pathname.length < 2) throw new Misuse("url: a Unix socket is unix:///path/to.sock", "url");
    const socketPath = decodeURIComponent(origin.pathname);
    return { origin: new URL("http://localhost"), agent: new http.Agent(agentOptions), secure: false, socketPath };
  }
  const secure = origin.protocol === "https:";
  if (!secure && origin.protocol !== "http:") throw new Misuse("url: must begin with http://, https:// or unix://", "url");
  const proxy = proxyFor(origin, env);
  if (!proxy) return { origin, secure, agent: secure ? new https.Agent(agentOptions) : new http.Agent(agentOptions) };
  const forward = {
    host: bare(proxy.hostname), port: Number(proxy.port || 80),
    ...(proxy.username && { authorization: basic(proxy) }),
  };
  if (secure) return { origin, secure, agent: new TunnelAgent(forward) };
  return { origin, secure, agent: new http.Agent(agentOptions), forward };
}

/** proxyFor returns the proxy that the environment names for an address. Local addresses are reached directly. */
export function proxyFor(origin: URL, env: NodeJS.ProcessEnv): URL | undefined {
  const host = bare(origin.hostname).toLowerCase();
  if (host === "localhost" || host.endsWith(".localhost") || host === "::1" || /^127\./.test(host)) return undefined;
  const secure = origin.protocol === "https:";
  // In a CGI program HTTP_PROXY may be a header of the request.
  const value = secure ? env["https_proxy"] || env["HTTPS_PROXY"]
    : env["http_proxy"] || (env["REQUEST_METHOD"] ? "" : env["HTTP_PROXY"]);
  if (!value) return undefined;
  const port = origin.port || (secure ? "443" : "80");
  for (const entry of (env["no_proxy"] || env["NO_PROXY"] || "").toLowerCase().split(/[\s,]+/).filter(Boolean)) {
    if (entry === "*") return undefined;
    const [, name, only] = /^(.*?)(?::(\d+))?$/.exec(entry)!;
    if (only && only !== port) continue;
    const suffix = name!.replace(/^\*?\./, "");
    if (host === suffix || host.endsWith("." + suffix)) return undefined;
  }
  const proxy = new URL(value.includes("://") ? value : `http://${value}`);
  if (proxy.protocol !== "http:") throw new Misuse(`proxy: ${proxy.protocol}// is not supported; use an http:// proxy`, "proxy");
  return proxy;
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function basic(proxy: URL): string {
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return `Basic ${Buffer.from(user).toString("base64")}`;
}

type Opened = Parameters<https.Agent["createConnection"]>[1];

/** TunnelAgent opens TLS connections through the CONNECT method of a proxy. */
class TunnelAgent extends https.Agent {
  constructor(private readonly proxy: NonNullable<Route["forward"]>) {
    super(agentOptions);
  }

  override createConnection(options: https.RequestOptions, callback: Opened): undefined {
    const opened = callback as (error: Error | null, socket?: tls.TLSSocket) => void;
    const target = `${options.host!.includes(":") ? `[${options.host}]` : options.host}:${options.port}`;
    const { host, port, authorization } = this.proxy;
    const request = http.request({
      host, port, method: "CONNECT", path: target, agent: false, timeout: 10_000,
      headers: { Host: target, ...(authorization && { "Proxy-Authorization": authorization }) },
    });
    request.once("connect", (answer, socket) => {
      if (answer.statusCode !== 200) {
        socket.destroy();
        return opened(new Error(`the proxy refuses the connection with HTTP ${answer.statusCode}`));
      }
      opened(null, tls.connect({ ...(options as tls.ConnectionOptions), socket }));
    });
    request.once("timeout", () => request.destroy(new Error("the proxy does not answer")));
    request.once("error", (error) => opened(error));
    request.end();
    return undefined;
  }
}
