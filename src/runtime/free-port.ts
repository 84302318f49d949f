// Free ports for processes that we tell where to listen.
// Invariant: below the kernel's ephemeral range, so that no outgoing connection takes one between choice and use; none is
// given out twice in a row.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const rangeSize = 12_000;

export class FreePorts {
  readonly #host: string;
  readonly #first: number;
  #next: number;

  constructor(host: string) {
    this.#host = host;
    this.#first = Math.max(1024, ephemeralBegin() - rangeSize);
    this.#next = this.#first + Math.floor(Math.random() * rangeSize);
  }

  async take(): Promise<number> {
    for (let tries = 0; tries < rangeSize; tries++) {
      const port = this.#first + (this.#next++ % rangeSize);
      if (await bindable(this.#host, port)) return port;
    }
    throw new Error(`no free port on ${this.#host} between ${this.#first} and ${this.#first + rangeSize}`);
  }
}

function ephemeralBegin(): number {
  try {
    return Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)[0]) || 32_768;
  } catch {
    return 32_768;
  }
}

function bindable(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
