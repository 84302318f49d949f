// Flows, with time moved by hand and real sockets towards real backends.
import { afterEach, expect, test } from 'vitest';
import type { Service } from '../../src/model/snapshot.ts';
import type { RelaySettings } from '../../src/udp/flow-relay.ts';
import { networkService } from '../support/routing.ts';
import { closeUdp, freeUdpPort, isUdpPortFree, UdpBackend } from '../support/udp.ts';
import { sleep, until } from '../support/wait.ts';
import { RelayKit, udpService } from './udp-kit.ts';

const kits: RelayKit[] = [];
afterEach(() => {
  for (const kit of kits.splice(0)) kit.close();
  closeUdp();
});

function kitFor(service: Service, over: Partial<RelaySettings> = {}): RelayKit {
  const kit = new RelayKit(service, over);
  kits.push(kit);
  return kit;
}

test('two clients have flows of their own and hear only their own replies', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  expect(await kit.ask(1000, 'from the first')).toBe('from the first');
  expect(await kit.ask(1001, 'from the second')).toBe('from the second');
  expect(await kit.ask(1000, 'from another host', '10.0.0.2')).toBe('from another host');
  expect(kit.replies.map(({ address, port }) => `${address}:${port}`)).toEqual([
    '10.0.0.1:1000',
    '10.0.0.1:1001',
    '10.0.0.2:1000',
  ]);
  expect(backend.flows).toBe(3);
  expect(kit.relay.flows).toBe(3);
});

test('datagrams of a flow keep their order and their borders, empty and large ones included', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address]));
  const sent = Array.from({ length: 200 }, (_, i) => (i % 10 === 3 ? '' : `datagram ${i}`));
  for (const text of sent) kit.send(1000, text);
  kit.send(1000, Buffer.alloc(65_507, 'x'));
  await until('all of them', () => backend.got.length === 201);
  expect(backend.texts.slice(0, 200)).toEqual(sent);
  expect(backend.got[200]!.message.length).toBe(65_507);
});

test('replies come back one by one, also several to one datagram and none before any', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address]));
  kit.send(1000, 'hello');
  const { port } = await backend.heard();
  for (const text of ['one', '', 'three']) backend.send(Buffer.from(text), port);
  await kit.replied(1000, 3);
  expect(kit.repliesTo(1000)).toEqual(['one', '', 'three']);
});

test('somebody else than the backend cannot answer the client', async () => {
  const backend = await UdpBackend.start(() => null);
  const stranger = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address]));
  kit.send(1000, 'hello');
  const { port } = await backend.heard();
  stranger.send(Buffer.from('forged'), port);
  backend.send(Buffer.from('right'), port);
  await kit.replied(1000, 1);
  expect(kit.repliesTo(1000)).toEqual(['right']);
});

// ---- silence -------------------------------------------------------------------------------------------------------

test('a tunnel that is silent for 35 and for 60 seconds goes on with the same backend socket', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'handshake');
  kit.clock.advance(35_000);
  await kit.ask(1000, 'after 35 seconds');
  kit.clock.advance(60_000);
  await kit.ask(1000, 'after 60 seconds');
  kit.clock.advance(119_000);
  await kit.ask(1000, 'after 119 seconds');
  expect(backend.flows).toBe(1);
  expect(kit.ends).toEqual([]);
});

test('a flow that is silent for 120 seconds is over; the next datagram begins another one', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'hello');
  kit.clock.advance(119_800);
  expect(kit.relay.flows).toBe(1);
  kit.clock.advance(400);
  expect(kit.relay.flows).toBe(0);
  expect(kit.ends).toEqual(['idle']);
  expect(kit.traffic.service('game')!.current.resource.stats()[0]).toMatchObject({ inflight: 0, total: 1 });
  await until('its socket to be closed', () => isUdpPortFree(backend.got[0]!.port));
  await kit.ask(1000, 'again');
  expect(backend.flows).toBe(2);
  expect(kit.traffic.service('game')!.current.active).toBe(1);
});

test('a client that only listens keeps its flow: replies refresh it as well', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address]));
  kit.send(1000, 'subscribe');
  const { port } = await backend.heard();
  for (let i = 1; i <= 4; i++) {
    kit.clock.advance(100_000);
    backend.send(Buffer.from(`tick ${i}`), port);
    await kit.replied(1000, i);
  }
  expect(kit.ends).toEqual([]);
  kit.clock.advance(121_000);
  expect(kit.ends).toEqual(['idle']);
});

test('a client that only sends keeps its flow', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address]));
  for (let i = 0; i < 4; i++) {
    kit.send(1000, `line ${i}`);
    kit.clock.advance(100_000);
  }
  await until('all of them', () => backend.got.length === 4);
  expect(backend.flows).toBe(1);
});

test('each flow is over in its own time', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'first');
  kit.clock.advance(50_000);
  await kit.ask(1001, 'second');
  kit.clock.advance(50_000);
  await kit.ask(1002, 'third');
  kit.clock.advance(21_000);
  expect(kit.lines.map((line) => line['client_port'])).toEqual([1000]);
  kit.clock.advance(50_000);
  expect(kit.lines.map((line) => line['client_port'])).toEqual([1000, 1001]);
  kit.clock.advance(50_000);
  expect(kit.lines.map((line) => line['client_port'])).toEqual([1000, 1001, 1002]);
});

test('a reload that shortens the idle time holds for flows that are there', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'hello');
  kit.clock.advance(40_000);
  kit.relay.configure({ ...kit.settings, idleMs: 30_000 });
  kit.clock.advance(200);
  expect(kit.ends).toEqual(['idle']);
});

// ---- the cap -------------------------------------------------------------------------------------------------------

test('one flow too many evicts the one that is idle for the longest time, and no other', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]), { maxFlows: 3 });
  for (const port of [1000, 1001, 1002]) await kit.ask(port, 'hello');
  await kit.ask(1000, 'still here');
  await kit.ask(1003, 'one more');
  expect(kit.lines.map((line) => [line['client_port'], line['reason']])).toEqual([[1001, 'evicted']]);
  expect(kit.relay.flows).toBe(3);
  expect(kit.cells.active.value).toBe(3);
  expect(kit.cells.accepted.value).toBe(4);
  await kit.ask(1000, 'untouched');
  await kit.ask(1002, 'untouched');
  expect(kit.ends).toEqual(['evicted']);
  // The evicted client simply begins anew.
  await kit.ask(1001, 'back');
  expect(kit.lines.map((line) => line['client_port'])).toEqual([1001, 1003]);
});

test('a datagram that cannot go anywhere evicts nobody', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]), { maxFlows: 1 });
  await kit.ask(1000, 'hello');
  kit.publish(udpService(1, [backend.address], { state: 'stopped' }));
  kit.send(1001, 'too late');
  expect(kit.ends).toEqual([]);
  expect(kit.dropped('stopped')).toBe(1);
  expect(await kit.ask(1000, 'what runs goes on')).toBe('what runs goes on');
});

// ---- backends that refuse --------------------------------------------------------------------------------------------

test('a refusal by ICMP is counted and the flow goes on when the backend is back', async () => {
  const port = await freeUdpPort();
  const kit = kitFor(udpService(1, [`127.0.0.1:${port}`]));
  kit.send(1000, 'nobody there');
  await until('the refusal', () => kit.cells.refused.value === 1);
  kit.send(1000, 'still nobody');
  await until('the next refusal', () => kit.cells.refused.value === 2);
  const backend = await UdpBackend.start(undefined, port);
  expect(await kit.ask(1000, 'back')).toBe('back');
  expect(backend.texts).toEqual(['back']);
  expect(kit.ends).toEqual([]);
  expect(kit.traffic.service('game')!.current.resource.stats()[0]!.failures).toBe(2);
});

test('refusals are seen when the client sends in pairs, though every other one falls to a send', async () => {
  const port = await freeUdpPort();
  const kit = kitFor(udpService(1, [`127.0.0.1:${port}`]));
  for (let i = 0; i < 40; i++) {
    kit.send(1000, 'one');
    kit.send(1000, 'two');
    await sleep(1);
  }
  expect(kit.cells.refused.value).toBeGreaterThan(2);
});

test('with a second backend the flow moves there, and its first datagram after the refusal is answered', async () => {
  const dead = `127.0.0.1:${await freeUdpPort()}`;
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [dead, backend.address], { passive: { failures: 5, ejectMs: 10_000 } }));
  kit.send(1000, 'to the dead one');
  await until('the move', () => kit.ends.length === 1);
  expect(kit.ends).toEqual(['upstream-failed']);
  expect(await kit.ask(1000, 'to the other one')).toBe('to the other one');
});

test('a backend that keeps refusing is ejected: new clients are not sent there', async () => {
  const dead = `127.0.0.1:${await freeUdpPort()}`;
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [dead, backend.address], { passive: { failures: 3, ejectMs: 10_000 } }));
  for (let port = 1000; kit.cells.refused.value < 3; port++) {
    const before = kit.ends.length;
    kit.send(port, 'hello');
    await until('an outcome', () => kit.repliesTo(port).length > 0 || kit.ends.length > before);
  }
  expect(kit.traffic.service('game')!.current.resource.stats()[0]!.state).toBe('ejected');
  const before = kit.cells.refused.value;
  for (let port = 2000; port < 2010; port++) expect(await kit.ask(port, 'hello')).toBe('hello');
  expect(kit.cells.refused.value).toBe(before);
});

test('a backend that answers between its refusals is not ejected', async () => {
  const other = await UdpBackend.start();
  const port = await freeUdpPort();
  const service = udpService(1, [`127.0.0.1:${port}`, other.address], {
    balance: 'round_robin',
    passive: { failures: 2, ejectMs: 10_000 },
  });
  const kit = kitFor(service);
  const flaky = () => kit.traffic.service('game')!.current.resource.stats()[0]!;
  let client = 1000;
  const refused = async (): Promise<void> => {
    const before = kit.cells.refused.value;
    for (; kit.cells.refused.value === before; client++) {
      const replies = kit.replies.length;
      kit.send(client, 'hello');
      await until('an outcome', () => kit.cells.refused.value > before || kit.replies.length > replies);
    }
  };
  await refused();
  const backend = await UdpBackend.start(undefined, port);
  for (; backend.got.length === 0; client++) await kit.ask(client, 'hello');
  backend.stop();
  await refused();
  expect(flaky()).toMatchObject({ failures: 2, state: 'live' });
});

test('a flow whose backend is found down moves with its next datagram, and that datagram is not lost', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const service = udpService(1, [one.address, two.address]);
  const kit = kitFor(service);
  expect(await kit.ask(1000, 'hello')).toBe('one');
  kit.publish(service, [one.address]);
  expect(await kit.ask(1000, 'hello')).toBe('two');
  expect(kit.ends).toEqual(['upstream-failed']);
  expect(one.got.length).toBe(1);
});

test('without any live backend new clients are dropped and counted, and nothing is kept of them', async () => {
  const backend = await UdpBackend.start();
  const service = udpService(1, [backend.address]);
  const kit = kitFor(service);
  kit.publish(service, [backend.address]);
  kit.send(1000, 'hello');
  expect(kit.dropped('no-live-backend')).toBe(1);
  expect(kit.relay.flows).toBe(0);
  kit.publish(service);
  expect(await kit.ask(1000, 'hello')).toBe('hello');
});

test('a backend that no route leads to costs nothing but a look at the other one', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, ['255.255.255.255:9', backend.address]));
  for (let port = 1000; port < 1004; port++) expect(await kit.ask(port, 'hello')).toBe('hello');
  expect(kit.relay.flows).toBe(4);
  expect(kit.traffic.service('game')!.current.active).toBe(4);
});

test('a backend that is named resolves, and what came meanwhile arrives in order', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [`localhost:${backend.port}`]));
  for (const text of ['one', 'two', 'three']) kit.send(1000, text);
  await kit.replied(1000, 3);
  expect(backend.texts).toEqual(['one', 'two', 'three']);
  expect(await kit.ask(1001, 'known by now')).toBe('known by now');
});

test('clients that come while the name is being looked up all get their backend', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [`localhost:${backend.port}`]));
  for (const port of [1000, 1001, 1002]) kit.send(port, `from ${port}`);
  for (const port of [1000, 1001, 1002]) await kit.replied(port, 1);
  expect(backend.flows).toBe(3);
});

test('a flow that ends while its name is being looked up opens nothing any more', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [`localhost:${backend.port}`]), { maxFlows: 1 });
  kit.send(1000, 'evicted at once');
  kit.send(1001, 'stays');
  await kit.replied(1001, 1);
  expect(backend.texts).toEqual(['stays']);
  const sockets = () => process.getActiveResourcesInfo().filter((name) => /^udpwrap$/i.test(name)).length;
  await until('two sockets, of the backend and of a flow', () => sockets() === 2, { timeoutMs: 1000, seen: sockets });
});

test('a backend whose name has no address costs the flow, not the relay', async () => {
  const kit = kitFor(udpService(1, ['nowhere.invalid:53']));
  kit.send(1000, 'hello');
  await until('the end', () => kit.ends.length === 1);
  expect(kit.ends).toEqual(['upstream-failed']);
  expect(kit.dropped('given-up')).toBe(1);
  expect(kit.cells.errors.value).toBe(1);
  expect(kit.traffic.service('game')!.current.active).toBe(0);
});

// ---- switch and hold -------------------------------------------------------------------------------------------------

test('after a switch a new client gets the new backend, an old one the old backend until the drain ends it', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address], { drainMs: 600_000, streamDrainMs: 600_000 }));
  expect(await kit.ask(1000, 'hello')).toBe('one');
  kit.publish(udpService(2, [two.address]));
  expect(await kit.ask(1001, 'hello')).toBe('two');
  for (let minute = 1; minute < 10; minute++) {
    kit.clock.advance(60_000);
    expect(await kit.ask(1000, 'hello')).toBe('one');
    await kit.ask(1001, 'hello');
  }
  expect(kit.drained).toEqual([]);
  kit.clock.advance(60_000);
  expect(kit.ends).toEqual(['drained']);
  expect(kit.drained).toEqual([{ service: 'game', generation: 1, claimed: 1, forced: 1 }]);
  expect(await kit.ask(1000, 'hello')).toBe('two');
});

test('an old flow ends its drain early when it falls silent', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]));
  await kit.ask(1000, 'hello');
  kit.publish(udpService(2, [two.address]));
  kit.clock.advance(121_000);
  expect(kit.drained).toEqual([{ service: 'game', generation: 1, claimed: 1, forced: 0 }]);
});

// yyyar/gobetween#73, traefik/traefik#8455: clients that stay with a backend that is gone.
test('a flow of the old generation goes over to the new one when the old backend is stopped before the drain ends', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]));
  await kit.ask(1000, 'hello');
  kit.publish(udpService(2, [two.address]));
  one.stop();
  kit.send(1000, 'into the void');
  await until('the refusal', () => kit.ends.length === 1);
  expect(kit.ends).toEqual(['upstream-failed']);
  expect(await kit.ask(1000, 'hello')).toBe('two');
});

test('a flow of the old generation that is refused while the new one is paused ends, and waits with its next datagram', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]));
  await kit.ask(1000, 'hello');
  kit.publish(udpService(2, [two.address], { state: 'paused' }));
  one.stop();
  kit.send(1000, 'into the void');
  await until('the refusal', () => kit.ends.length === 1);
  kit.send(1000, 'kept');
  kit.publish(udpService(2, [two.address]));
  await until('the kept one', () => two.texts.length === 1);
  expect(two.texts).toEqual(['kept']);
});

test('what arrives during a hold waits, and arrives at the new generation in order', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]));
  await kit.ask(1000, 'before');
  kit.hold();
  for (const text of ['a', 'b', 'c']) kit.send(1001, text);
  expect(await kit.ask(1000, 'what is claimed goes on')).toBe('one');
  expect(kit.traffic.service('game')!.waiting).toBe(1);
  kit.publish(udpService(2, [two.address]));
  await kit.replied(1001, 3);
  expect(two.texts).toEqual(['a', 'b', 'c']);
  expect(one.texts).toEqual(['before', 'what is claimed goes on']);
});

test('a paused service keeps 64 datagrams a flow, and drops and counts what is beyond', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address], { state: 'paused' }));
  for (let i = 0; i < 70; i++) kit.send(1000, `datagram ${i}`);
  expect(kit.dropped('hold-full')).toBe(6);
  kit.publish(udpService(1, [backend.address]));
  await until('what was kept', () => backend.got.length === 64);
  expect(backend.texts).toEqual(Array.from({ length: 64 }, (_, i) => `datagram ${i}`));
});

test('large datagrams that wait are bounded by their bytes', async () => {
  const backend = await UdpBackend.start(() => null);
  const kit = kitFor(udpService(1, [backend.address], { state: 'paused' }));
  kit.send(1000, Buffer.alloc(65_507));
  kit.send(1000, Buffer.alloc(1000));
  expect(kit.dropped('hold-full')).toBe(1);
  kit.publish(udpService(1, [backend.address]));
  await until('the large one', () => backend.got.length === 1);
});

test('a flow waits for a paused service as long as max_hold allows', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address], { state: 'paused', maxHoldMs: 30_000 }));
  kit.send(1000, 'hello');
  kit.send(1000, 'anybody?');
  kit.clock.advance(30_100);
  expect(kit.ends).toEqual(['hold-timeout']);
  expect(kit.dropped('given-up')).toBe(2);
  expect(kit.relay.flows).toBe(0);
  expect(kit.traffic.service('game')!.waiting).toBe(0);
});

test('a flow that is evicted while it waits leaves its place', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address], { state: 'paused' }), { maxFlows: 1 });
  kit.send(1000, 'first');
  kit.send(1001, 'second');
  expect(kit.ends).toEqual(['evicted']);
  expect(kit.traffic.service('game')!.waiting).toBe(1);
  kit.publish(udpService(1, [backend.address]));
  await kit.replied(1001, 1);
  expect(backend.texts).toEqual(['second']);
});

test('a service that is stopped while flows wait for it ends them', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address], { state: 'paused' }));
  kit.send(1000, 'hello');
  kit.publish(udpService(1, [backend.address], { state: 'stopped' }));
  expect(kit.ends).toEqual(['stopped']);
  kit.send(1000, 'hello');
  expect(kit.dropped('stopped')).toBe(1);
});

// ---- reload ----------------------------------------------------------------------------------------------------------

test('a narrowed source policy ends the flows of those who may not be here any more, at once, and only those', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'hello', '10.0.0.1');
  await kit.ask(1000, 'hello', '10.0.0.2');
  kit.relay.configure({ ...kit.settings, admit: (address) => (address === '10.0.0.2' ? address : null) });
  expect(kit.lines.map((line) => [line['client'], line['reason']])).toEqual([['10.0.0.1', 'not-admitted']]);
  kit.send(1000, 'let me in', '10.0.0.1');
  expect(kit.cells.sourceRefused.value).toBe(1);
  expect(await kit.ask(1000, 'still here', '10.0.0.2')).toBe('still here');
  expect(backend.flows).toBe(2);
});

test('when the router leads to another service, old flows go on for a drain and new ones go there', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]), { drainMs: 60_000 });
  const other = networkService('other', 1, [two.address], { protocol: 'udp' });
  await kit.ask(1000, 'hello');
  kit.publish(udpService(1, [one.address]), [], [other]);
  kit.relay.configure({ ...kit.settings, service: 'other' });
  expect(await kit.ask(1001, 'hello')).toBe('two');
  kit.clock.advance(59_000);
  expect(await kit.ask(1000, 'hello')).toBe('one');
  kit.clock.advance(1100);
  expect(kit.ends).toEqual(['drained']);
  expect(await kit.ask(1000, 'hello')).toBe('two');
});

test('a router that leads back in time ends nothing, and counts anew when it leads away again', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const kit = kitFor(udpService(1, [one.address]), { drainMs: 60_000 });
  const other = networkService('other', 1, [two.address], { protocol: 'udp' });
  kit.publish(udpService(1, [one.address]), [], [other]);
  const to = (service: string): void => kit.relay.configure({ ...kit.settings, service, drainMs: 60_000 });
  await kit.ask(1000, 'hello');
  to('other');
  await kit.ask(1001, 'hello');
  kit.clock.advance(50_000);
  to('game');
  kit.clock.advance(50_000);
  expect(await kit.ask(1000, 'it is its service again')).toBe('one');
  expect(await kit.ask(1001, 'half of my time is left')).toBe('two');
  to('other');
  kit.clock.advance(50_000);
  expect(await kit.ask(1001, 'it is my service again')).toBe('two');
  expect(await kit.ask(1000, 'not yet')).toBe('one');
  kit.clock.advance(10_100);
  expect(kit.lines.map((line) => line['client_port'])).toEqual([1000]);
});

test('without a router datagrams are dropped and counted', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]), { service: null });
  kit.send(1000, 'hello');
  expect(kit.dropped('no-router')).toBe(1);
  expect(kit.relay.flows).toBe(0);
});

test('an entrypoint that leaves takes no new clients and is empty when its flows have nothing left to say', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'hello');
  let empty = false;
  kit.relay.drain(() => {
    empty = true;
  });
  kit.send(1001, 'too late');
  expect(kit.dropped('draining')).toBe(1);
  kit.clock.advance(900);
  expect(await kit.ask(1000, 'still talking')).toBe('still talking');
  kit.clock.advance(900);
  expect(empty).toBe(false);
  kit.clock.advance(300);
  expect(empty).toBe(true);
  expect(kit.ends).toEqual(['drained']);
});

test('an entrypoint that comes back before its last flow ended goes on as if nothing had happened', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'hello');
  kit.relay.drain(() => {});
  kit.relay.resume();
  kit.relay.configure(kit.settings);
  kit.clock.advance(60_000);
  await kit.ask(1000, 'hello');
  await kit.ask(1001, 'hello');
  expect(backend.flows).toBe(2);
});

// ---- what is told ------------------------------------------------------------------------------------------------------

test('a line in the access log tells what a flow was', async () => {
  const backend = await UdpBackend.start(() => Buffer.from('longer answer'));
  const kit = kitFor(udpService(7, [backend.address]));
  await kit.ask(1000, 'abc');
  await kit.ask(1000, '');
  kit.clock.advance(120_100);
  expect(kit.lines).toEqual([
    {
      time: '1970-01-01T00:00:00.000Z',
      client: '10.0.0.1',
      client_port: 1000,
      protocol: 'udp',
      entrypoint: 'games',
      reason: 'idle',
      duration_ms: 120_000,
      bytes_in: 3,
      bytes_out: 26,
      datagrams_in: 2,
      datagrams_out: 2,
      service: 'game',
      generation: 7,
      backend: backend.address,
    },
  ]);
});

test('datagrams and bytes are counted as they pass', async () => {
  const backend = await UdpBackend.start();
  const kit = kitFor(udpService(1, [backend.address]));
  await kit.ask(1000, 'abcd');
  await kit.ask(1001, 'ef');
  const { datagramsIn, datagramsOut, received, sent, active, accepted } = kit.cells;
  expect([datagramsIn, datagramsOut, received, sent, active, accepted].map(({ value }) => value)).toEqual([
    2, 2, 6, 6, 2, 2,
  ]);
  kit.clock.advance(121_000);
  expect(active.value).toBe(0);
  expect(kit.ended('idle')).toBe(2);
});
