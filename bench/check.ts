// Proof that a contestant answers correctly before it is timed.
// Invariant: asks over the very connection type that will be loaded.
import { request as plainRequest } from 'node:http';
import { connect } from 'node:http2';
import { request as tlsRequest } from 'node:https';

export const smallBody = 'hello from the backend, a small body of text\n';

/** One GET over HTTP/1.1; resolves with status and body length. */
export function get(port: number, path: string, secure: boolean): Promise<{ status: number; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      path,
      servername: 'bench.test',
      rejectUnauthorized: false,
      agent: false as const,
    };
    const outgoing = (secure ? tlsRequest : plainRequest)(options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
    });
    outgoing.on('error', reject);
    outgoing.setHeader('Host', secure ? `bench.test:${port}` : `127.0.0.1:${port}`);
    outgoing.end();
  });
}

export async function expectSmall(port: number, secure: boolean): Promise<void> {
  const { status, body } = await get(port, '/', secure);
  if (status !== 200 || body.toString() !== smallBody)
    throw new Error(`port ${port}: ${status} ${body.subarray(0, 200)}`);
}

export async function expectMegabyte(port: number): Promise<void> {
  const { status, body } = await get(port, '/megabyte', false);
  if (status !== 200 || body.length !== 1 << 20) throw new Error(`port ${port}: ${status}, ${body.length} bytes`);
}

export function expectSmallH2(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, servername: 'bench.test' });
    session.on('error', reject);
    const stream = session.request({ ':path': '/', ':authority': `bench.test:${port}` });
    let status = 0;
    let body = '';
    stream.on('response', (headers) => {
      status = headers[':status'] ?? 0;
    });
    stream.setEncoding('utf8');
    stream.on('data', (chunk: string) => {
      body += chunk;
    });
    stream.on('error', reject);
    stream.on('end', () => {
      session.close();
      if (status === 200 && body === smallBody) resolve();
      else reject(new Error(`port ${port}: ${status} ${body.slice(0, 200)}`));
    });
  });
}
