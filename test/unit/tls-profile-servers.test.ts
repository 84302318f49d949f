import type { TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { TlsProfile } from '../../src/model/routing-table.ts';
import type { Certificate } from '../../src/model/snapshot.ts';
import { ProfileServers, serverOptions } from '../../src/tls/profile-servers.ts';
import { mint } from './tls-kit.ts';

const plain: TlsProfile = { id: 'default', minVersion: '1.2', clientAuth: null, http: true };
const key = Buffer.alloc(48, 1);
const nothing = { secure: (_socket: TLSSocket) => {}, failed: () => {} };

describe('the servers behind the terminator', () => {
  it('are built once for each profile and certificate', () => {
    const servers = new ProfileServers(nothing, key);
    const certificate = mint('a.test');
    const first = servers.get(plain, certificate);
    expect(servers.get(plain, certificate)).toBe(first);
    expect(servers.get({ ...plain, id: '1.3/none', minVersion: '1.3' }, certificate)).not.toBe(first);
    expect(servers.size).toBe(2);
  });

  it('are bounded in number, and the ones in use stay', () => {
    const servers = new ProfileServers(nothing, key);
    const certificate = mint('a.test');
    const copies: Certificate[] = Array.from({ length: 1100 }, (_, i) => ({ ...certificate, id: `copy ${i}` }));
    const busy = servers.get(plain, copies[0]!);
    for (const copy of copies) {
      servers.get(plain, copy);
      expect(servers.get(plain, copies[0]!)).toBe(busy);
    }
    expect(servers.size).toBe(1000);
  });

  it('are forgotten with their certificate or profile', () => {
    const servers = new ProfileServers(nothing, key);
    const [a, b] = [mint('a.test'), mint('b.test')];
    servers.get(plain, a);
    const kept = servers.get(plain, b);
    servers.keep((profileId, certificateId) => profileId === 'default' && certificateId === b.id);
    expect(servers.size).toBe(1);
    expect(servers.get(plain, b)).toBe(kept);
  });

  it('ask for a client certificate exactly when the profile does', () => {
    const certificate = mint('a.test');
    expect(serverOptions(plain, certificate, key)).not.toHaveProperty('requestCert');
    for (const mode of ['request', 'require'] as const) {
      const options = serverOptions({ ...plain, clientAuth: { mode, ca: 'PEM' } }, certificate, key);
      expect(options).toMatchObject({ requestCert: true, rejectUnauthorized: mode === 'require', ca: 'PEM' });
    }
  });

  it('say so when a certificate and its key do not belong together', () => {
    const servers = new ProfileServers(nothing, key);
    expect(() => servers.get(plain, { ...mint('a.test'), key: mint('b.test').key })).toThrow();
    expect(servers.size).toBe(0);
  });
});
