// A renewal that is killed, or runs out of disk, at every single file operation: what is served afterwards is always the old
// or the new pair, and the renewal comes to its end.
import { lutimesSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { connect, createSecureContext, createServer, type Server } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileStore } from '../../src/certificates/acme/file-store.ts';
import type { Certificate } from '../../src/model/snapshot.ts';
import { AcmeNode, AcmeWorld, settingsFor } from '../support/acme-world.ts';
import { FileSaboteur } from '../support/file-saboteur.ts';
import { SimulatedCa } from '../support/simulated-ca.ts';
import { sleep } from '../support/wait.ts';

const day = 86_400_000;
let world: AcmeWorld;
let ca: SimulatedCa;
let server: Server;
let shown: Certificate | null = null;

beforeAll(async () => {
  server = createServer({
    SNICallback: (_, answer) =>
      answer(null, shown === null ? undefined : createSecureContext({ cert: shown.chain, key: shown.key })),
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

beforeEach(() => {
  world = new AcmeWorld();
  ca = new SimulatedCa({
    url: 'https://ca.test/directory',
    now: world.now,
    random: () => 0.5,
    lifetime: () => 90 * day,
    announces: true,
  });
});

afterEach(() => {
  FileSaboteur.restore();
  world.close();
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

/** Fingerprint that a client sees when this certificate is served. */
function handshake(certificate: Certificate): Promise<string> {
  shown = certificate;
  const { port } = server.address() as { port: number };
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', servername: 'a.test', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256.replaceAll(':', '').toLowerCase());
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

const settings = () => settingsFor({ issuers: [ca], names: ['a.test'] });

/** The renewal has come as far as it can. */
async function untilOver(renewal: Promise<unknown>, saboteur: FileSaboteur): Promise<void> {
  let over = false;
  void renewal
    .catch(() => {})
    .finally(() => {
      over = true;
    });
  while (!over && !saboteur.hasStruck) await new Promise((resolve) => setImmediate(resolve));
  // What runs beside the operation that was hit comes to its own end.
  await sleep(10);
}

async function withOld(): Promise<{ readonly node: AcmeNode; readonly old: string }> {
  const node = await AcmeNode.start(world, { settings: settings() });
  await node.renewals.idle();
  return { node, old: node.renewals.certificates[0]!.id };
}

describe('a renewal', () => {
  it('that is killed at any file operation leaves the old or the new pair, and is finished by who comes next', async () => {
    let points = 0;
    for (let at = 0, share = 0; ; points++, [at, share] = share === 0 ? [at, 0.6] : [at + 1, 0]) {
      const { node, old } = await withOld();
      const saboteur = FileSaboteur.install('kill', at, share);
      await untilOver(node.renewals.renew('a.test'), saboteur);
      const struck = saboteur.hasStruck;
      node.kill();
      FileSaboteur.restore();
      if (!struck) break;
      // What goes on being served in memory while the disk is stuck.
      const inMemory = node.renewals.certificates[0]!;
      const signed = new Set(ca.signed.keys());
      expect(signed, `in memory, killed at ${at}`).toContain(await handshake(inMemory));

      // Nobody clears away what may still be written.
      for (const path of leftovers(world.directory)) lutimesSync(path, 0, 0);
      const next = await AcmeNode.start(world, { settings: settings() });
      const [found] = next.renewals.certificates;
      expect(signed, `after a restart, killed at ${at}`).toContain(await handshake(found!));
      if (found!.id === old) {
        // The lease of the dead one has to run out first.
        const renewed = next.renewals.renew('a.test').catch(() => {});
        await world.pass(60_000);
        await renewed;
        await next.renewals.renew('a.test').catch(() => {});
        expect(next.renewals.certificates[0]!.id, `renewed at last, killed at ${at}`).not.toBe(old);
      }
      expect(modesIn(world.directory)).toEqual([]);
      expect(leftovers(world.directory), `killed at ${at}`).toEqual([]);
      await next.renewals.close();
      next.kill();
      world.close();
      world = new AcmeWorld();
      ca.orders.length = 0;
    }
    expect(points).toBeGreaterThan(50);
  });

  it('for which the disk is full at any operation is served from memory, told, and kept later', async () => {
    for (let at = 0; ; at += 3) {
      const { node, old } = await withOld();
      const saboteur = FileSaboteur.install('full', at);
      await node.renewals.renew('a.test').catch(() => {});
      const struck = saboteur.hasStruck;
      const [certificate] = node.renewals.certificates;
      expect([...ca.signed.keys()]).toContain(await handshake(certificate!));
      FileSaboteur.restore();
      if (!struck) break;
      const isNew = certificate!.id !== old;
      await world.pass(15 * 60_000);
      expect(node.renewals.storeTrouble).toBeNull();
      if (isNew) {
        const again = await new FileStore(world.directory).certificates(() => null);
        expect(again.map(({ current }) => (current as { certificate: Certificate }).certificate.id)).toEqual([
          certificate!.id,
        ]);
      }
      await node.renewals.close();
      node.kill();
      world.close();
      world = new AcmeWorld();
      ca.orders.length = 0;
    }
  });
});

function walk(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((each) => {
    const path = join(directory, each.name);
    return each.isDirectory() ? [path, ...walk(path)] : each.isSymbolicLink() && each.name === 'current' ? [] : [path];
  });
}

/** What others could read. */
const modesIn = (directory: string) => walk(directory).filter((path) => (statSync(path).mode & 0o077) !== 0);

const leftovers = (directory: string) => walk(directory).filter((path) => /\.tmp$|\.new-/.test(path));
