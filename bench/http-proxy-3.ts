// What a Node user would write instead: http-proxy-3 with keep-alive, forwarded headers and a log line a request.
// Invariant: the library does the work; nothing here is tuned against it.
import { createWriteStream } from 'node:fs';
import { Agent, createServer } from 'node:http';
import { createProxyServer } from 'http-proxy-3';

const [listen, backend] = process.argv.slice(2);
const proxy = createProxyServer({
  target: `http://127.0.0.1:${backend}`,
  xfwd: true,
  agent: new Agent({ keepAlive: true, maxSockets: 256 }),
});
const log = createWriteStream('/dev/null');
proxy.on('error', (_error, _request, response) => response.end());
const server = createServer((request, response) => {
  const begun = Date.now();
  response.on('finish', () => {
    log.write(
      `${JSON.stringify({ method: request.method, url: request.url, status: response.statusCode, ms: Date.now() - begun })}\n`,
    );
  });
  proxy.web(request, response);
});
server.on('upgrade', (request, socket, head) => proxy.ws(request, socket, head));
server.listen(Number(listen), '127.0.0.1');
