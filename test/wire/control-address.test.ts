// Administration over TCP through the whole product: the verbs of the command line for whoever has the token.
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { paths } from '../../src/control/api.ts';
import { freePorts } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';

const token = '0123456789abcdef'.repeat(4);
let p: Turnpike | null = null;
afterAll(() => p?.stop());

function configOf(web: number, control: string): string {
  return `workers = 1
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
[external_routes."app.test"]
respond = { status = 200, body = "ok" }
${control}`;
}

async function call(
  port: number,
  method: string,
  path: string,
  bearer = token,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${bearer}`, connection: 'close' },
  });
  return { status: response.status, body: await response.json() };
}

it('answers what the socket answers, follows reloads, and refuses an address that is taken', async () => {
  const [web, first, second] = (await freePorts(3)) as [number, number, number];
  p = await Turnpike.start({ config: configOf(web, '') });
  const tokenFile = join(p.directory, 'token');
  writeFileSync(tokenFile, `${token}\n`);
  chmodSync(tokenFile, 0o600);
  const at = (port: number): string =>
    configOf(web, `[control]\naddress = "127.0.0.1:${port}"\ntoken_file = "token"\n`);
  expect((await p.reload(at(first))).fault).toBeNull();
  const { status, body } = await call(first, 'GET', paths.status);
  expect(status).toBe(200);
  expect(body).toMatchObject({ pid: p.pid, configFile: p.configFile });
  expect((await call(first, 'GET', paths.status, 'x'.repeat(64))).status).toBe(401);
  expect((await call(first, 'POST', paths.reload)).body).toMatchObject({ outcome: 'unchanged' });
  expect((await p.reload(at(second))).fault).toBeNull();
  expect((await call(second, 'GET', paths.status)).status).toBe(200);
  await expect(call(first, 'GET', paths.status)).rejects.toThrow();
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const refused = await p.reload(at((taken.address() as AddressInfo).port));
  taken.close();
  expect([refused.outcome, refused.fault?.code]).toEqual(['refused', 'bind-failed']);
  expect((await call(second, 'GET', paths.status)).status).toBe(200);
  expect(p.output).not.toContain(token);
});
