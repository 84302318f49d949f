// Machines made of network namespaces: real interfaces and addresses that come and go without touching this one's.
// Invariant: what was made is removed by `end`, and only that.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { ran } from './programs.ts';

export function namespaced(name: string, [program, ...args]: readonly string[]): [string, string[]] {
  return ['ip', ['netns', 'exec', name, program!, ...args]];
}

let made = 0;

/** Two machines, `here` and `there`. */
export class TwoMachines {
  readonly here = `tp-${process.pid}-${made}h`;
  readonly there = `tp-${process.pid}-${made++}t`;
  readonly #children: ChildProcess[] = [];
  #links = 0;

  constructor() {
    for (const name of [this.here, this.there]) {
      ip('netns', 'add', name);
      ip('-n', name, 'link', 'set', 'lo', 'up');
    }
  }

  /** A cable between them. @param net  "10.77.0": here is .1, there .2; the same in IPv6 under fd77:N:: */
  connect(net: string): string {
    const link = `l${this.#links++}`;
    ip('-n', this.here, 'link', 'add', link, 'type', 'veth', 'peer', 'name', link, 'netns', this.there);
    const v6 = `fd77:${net.split('.')[2]}::`;
    for (const [name, last] of [
      [this.here, 1],
      [this.there, 2],
    ] as const) {
      ip('-n', name, 'address', 'add', `${net}.${last}/24`, 'dev', link);
      ip('-n', name, 'address', 'add', `${v6}${last}/64`, 'dev', link, 'nodad');
      ip('-n', name, 'link', 'set', link, 'up');
    }
    return link;
  }

  disconnect(link: string): void {
    ip('-n', this.here, 'link', 'del', link);
  }

  /** Runs until `end`, or until it is killed. */
  run(name: string, command: readonly string[]): ChildProcess {
    const [program, args] = namespaced(name, command);
    const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    this.#children.push(child);
    return child;
  }

  async curl(...args: readonly string[]): Promise<string> {
    const [program, list] = namespaced(this.there, ['curl', '-sk', '--max-time', '5', ...args]);
    return (await ran(program, list).done).stdout;
  }

  /** What comes back for these bytes until the other side closes. @param to  "address port" */
  async say(to: string, bytes: string): Promise<string> {
    const [address, port] = to.split(' ');
    const script = `const s = require('node:net').connect(${port}, '${address}', () => s.write(${JSON.stringify(bytes)}));
      s.setTimeout(7000, () => { console.log('timeout'); s.destroy(); }).on('error', () => {}).pipe(process.stdout);`;
    const [program, list] = namespaced(this.there, [process.execPath, '-e', script]);
    return (await ran(program, list).done).stdout;
  }

  end(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    for (const name of [this.here, this.there]) ip('netns', 'del', name);
  }
}

function ip(...args: readonly string[]): void {
  const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr}`);
}
