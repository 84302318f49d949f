// The backend of the generator question: answers after 20 ms, every twentieth time after 60 ms.
import { createServer } from 'node:http';
import { smallBody } from './check.ts';

let asked = 0;
createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
  asked++;
  setTimeout(() => response.setHeader('Content-Type', 'text/plain').end(smallBody), asked % 20 === 0 ? 60 : 20);
}).listen(Number(process.argv[2]), '127.0.0.1');
