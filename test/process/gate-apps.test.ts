// The gate of an installed app, and the other ways to it.
// Invariant: whoever is led to an app by another name is asked what the app's own name asks.
import { afterEach, expect, it } from 'vitest';
import { AppKit } from '../support/app-kit.ts';
import { GenerationBackend } from '../support/generation-backend.ts';
import { askOnce } from '../support/process-kit.ts';
import { closeRawClients } from '../support/raw-client.ts';

let kit: AppKit;
let backend: GenerationBackend;
afterEach(async () => {
  closeRawClients();
  await kit.end();
  backend.stop();
});

it('an app asks for a login by its own name and by any other, and by none where that is said', {
  timeout: 60_000,
}, async () => {
  backend = await GenerationBackend.start(1);
  kit = await AppKit.start({ services: [], workers: 2 });
  await kit.apply('blog', kit.blog(1));
  await kit.deploy('blog', [`web=${backend.address}`]);
  expect(await askOnce(kit.port, 'blog.test')).toBe('1');
  const more = `
[gate.apps.blog]
policy = "gated"
[external_routes."side.test"]
to = ["${backend.address.replace('127.0.0.1', 'localhost')}"]
[external_routes."said.test"]
to = ["${backend.address}"]
gate = "open"
gate_rationale = "shows what everybody may see"
`;
  expect(await kit.p.reload(`${kit.config}${more}`)).toMatchObject({ outcome: 'applied' });
  const seen = async (): Promise<string[]> =>
    Promise.all(['blog.test', 'side.test', 'said.test'].map((name) => askOnce(kit.port, name)));
  expect(await seen()).toEqual(['status 401', 'status 401', '1']);
  await kit.p.control.call('security.set-app-gate', { id: 'blog', enabled: false });
  expect(await seen()).toEqual(['1', '1', '1']);
  await kit.p.control.call('security.set-app-gate', { id: 'blog', enabled: null });
  expect(await seen()).toEqual(['status 401', 'status 401', '1']);
  await kit.p.stop();
});
