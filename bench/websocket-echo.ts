// The backend of the WebSocket question: sends every message back.
import { WebSocketServer } from 'ws';

const server = new WebSocketServer({ host: '127.0.0.1', port: Number(process.argv[2]), perMessageDeflate: false });
server.on('connection', (client) => client.on('message', (message, binary) => client.send(message, { binary })));
