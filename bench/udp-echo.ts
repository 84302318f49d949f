// The backend of the UDP questions: sends every datagram back. The same port takes TCP connections, which tells that it is
// there.
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const port = Number(process.argv[2]);
const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
socket.on('message', (message, from) => socket.send(message, from.port, from.address));
socket.bind(port, '127.0.0.1', () => createServer((each) => each.destroy()).listen(port, '127.0.0.1'));
