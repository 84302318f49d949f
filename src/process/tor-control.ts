// One conversation with Tor's control port (control-spec): authenticate, add and remove onion services.
// Invariant: one command at a time, answered in order; what Tor says no to is an error with Tor's own words, and neither
// cookie, password nor key is in it.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import type { DeclaredTor } from '../config/declared-gate.ts';

export interface OnionKey {
  /** Without ".onion". */
  readonly id: string;
  /** "ED25519-V3:…"; null: the one that was given. */
  readonly key: string | null;
}

const answerMs = 10_000;
const lineMax = 64 * 1024;

export class TorControl {
  readonly #socket: Socket;
  #rest = '';
  #lines: string[] = [];
  /** The command that was asked last. */
  #asked = '';
  #waiting: { resolve: (lines: readonly string[]) => void; reject: (error: Error) => void } | null = null;
  #ended: Error | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#read(text));
    socket.on('error', (error) => this.#end(error));
    socket.on('timeout', () => socket.destroy(new Error(`Tor did not answer ${this.#asked}`)));
    socket.on('close', () => this.#end(new Error('Tor closed the control connection')));
  }

  static async open(declared: DeclaredTor, onClose: () => void): Promise<TorControl> {
    const socket = connect(declared.control);
    const control = new TorControl(socket);
    try {
      await control.#authenticate(declared);
    } catch (error) {
      socket.destroy();
      throw error;
    }
    socket.once('close', onClose);
    if (socket.destroyed) throw new Error('Tor closed the control connection');
    return control;
  }

  /** The service is there for as long as this connection is. @param key  null: a new one */
  async addOnion(key: string | null, target: string): Promise<OnionKey> {
    const lines = await this.#ask(`ADD_ONION ${key ?? 'NEW:ED25519-V3'} Port=80,${target}`, 'ADD_ONION');
    const told = (name: string): string | null =>
      lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? null;
    const id = told('ServiceID');
    if (id === null || !/^[a-z2-7]{56}$/.test(id)) throw new Error('Tor gave the onion service no address');
    return { id, key: told('PrivateKey') };
  }

  async removeOnion(id: string): Promise<void> {
    await this.#ask(`DEL_ONION ${id}`, 'DEL_ONION');
  }

  close(): void {
    this.#socket.destroy();
  }

  async #authenticate({ passwordFile, cookieFile }: DeclaredTor): Promise<void> {
    if (passwordFile !== null) {
      const [password = ''] = (await readFile(passwordFile, 'utf8')).split(/\r?\n/);
      await this.#ask(`AUTHENTICATE "${password.replace(/["\\]/g, '\\$&')}"`, 'AUTHENTICATE');
      return;
    }
    const known = cookieFile ?? (await this.#cookieFile());
    const cookie = await readFile(known);
    if (cookie.length !== 32) throw new Error(`${known} is no cookie of Tor's: it has ${cookie.length} bytes`);
    // SAFECOOKIE: whoever listens there has to know the cookie, too, before it learns anything.
    const nonce = randomBytes(32);
    const lines = await this.#ask(`AUTHCHALLENGE SAFECOOKIE ${nonce.toString('hex')}`, 'AUTHCHALLENGE');
    const match = /SERVERHASH=([0-9A-F]{64}) SERVERNONCE=([0-9A-F]{64})/i.exec(lines.join(' '));
    if (match === null) throw new Error('Tor answered the challenge with something else');
    const serverNonce = Buffer.from(match[2]!, 'hex');
    const sign = (role: string): Buffer =>
      createHmac('sha256', `Tor safe cookie authentication ${role} hash`)
        .update(Buffer.concat([cookie, nonce, serverNonce]))
        .digest();
    if (!timingSafeEqual(sign('server-to-controller'), Buffer.from(match[1]!, 'hex'))) {
      throw new Error('what listens on the control port does not know the cookie of Tor');
    }
    await this.#ask(`AUTHENTICATE ${sign('controller-to-server').toString('hex')}`, 'AUTHENTICATE');
  }

  async #cookieFile(): Promise<string> {
    const lines = await this.#ask('PROTOCOLINFO 1', 'PROTOCOLINFO');
    const match = /COOKIEFILE="((?:[^"\\]|\\.)*)"/.exec(lines.join(' '));
    if (match === null) {
      throw new Error('Tor offers no cookie: set CookieAuthentication 1 in its configuration, or password_file here');
    }
    return match[1]!.replace(/\\(.)/g, '$1');
  }

  /** Lines of the answer, without their codes. @param name  what errors call the command */
  async #ask(command: string, name: string): Promise<readonly string[]> {
    if (this.#ended !== null) throw this.#ended;
    const lines = await new Promise<readonly string[]>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#asked = name;
      this.#socket.setTimeout(answerMs);
      this.#socket.write(`${command}\r\n`, 'latin1');
    });
    this.#socket.setTimeout(0);
    const last = lines.at(-1) ?? '';
    if (!last.startsWith('250')) throw new Error(`Tor refused ${name}: ${last}`);
    return lines.map((line) => line.slice(4));
  }

  #read(text: string): void {
    this.#rest += text;
    if (this.#rest.length > lineMax) {
      this.#socket.destroy(new Error('Tor said more than an answer can be'));
      return;
    }
    for (let end = this.#rest.indexOf('\r\n'); end >= 0; end = this.#rest.indexOf('\r\n')) {
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 2);
      this.#lines.push(line);
      // "250-" and "250+" go on, "250 " is the end.
      if (!/^\d{3} /.test(line)) continue;
      const lines = this.#lines.splice(0);
      const { resolve } = this.#waiting ?? {};
      this.#waiting = null;
      resolve?.(lines);
    }
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#waiting?.reject(this.#ended);
    this.#waiting = null;
  }
}
