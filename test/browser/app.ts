// An app as people write them: pages that forbid to be framed, an event stream, and a WebSocket that echoes.
// Invariant: says who it was told to serve, and nothing else of the request.
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const [name = 'app', port = '0'] = process.argv.slice(2);
const page = (
  user: string,
): string => `<!doctype html><html lang="en"><title>${name}</title><h1>${name} for ${user}</h1>
<p id="socket">connecting</p><script>
const says = document.getElementById('socket');
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
socket.onopen = () => socket.send('hi');
socket.onmessage = ({ data }) => { says.textContent = 'echo ' + data; };
socket.onclose = ({ code }) => { says.textContent = 'closed ' + code; };
</script>`;
const server = createServer((request, response) => {
  if (request.url !== '/') {
    response.writeHead(request.url === '/favicon.ico' ? 204 : 404).end();
    return;
  }
  response.setHeader('Content-Type', 'text/html');
  response.setHeader('X-Frame-Options', 'DENY');
  response.end(page(String(request.headers['x-turnpike-user'] ?? 'nobody')));
});
new WebSocketServer({ server, path: '/socket' }).on('connection', (socket) => {
  socket.on('message', (data) => socket.send(String(data)));
});
server.listen(Number(port), '127.0.0.1');
