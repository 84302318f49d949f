import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Log } from '../../src/base/log.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { LoadSensor, ownDescriptors } from '../../src/process/load-sensor.ts';
import { OverloadGuard, roomFor, type ShedKind } from '../../src/traffic/overload-guard.ts';
import { HandClock } from '../support/hand-clock.ts';

/** A clock whose ticks come late. */
class LateClock extends HandClock {
  lateness = 0;
  #skew = 0;

  override monotonic(): number {
    return super.monotonic() + this.#skew;
  }

  /** One tick of the sensor, `lateness` after its time. */
  tick(): void {
    this.#skew += this.lateness;
    this.advance(100);
  }
}

class Scene {
  readonly clock = new LateClock();
  readonly metrics = new Metrics();
  readonly lines: { level: string; event: string; members: Record<string, unknown> }[] = [];
  used = 100;
  acted: number[] = [];
  readonly guard = new OverloadGuard(this.metrics, () => roomFor(this.used, 1000));
  readonly sensor: LoadSensor;

  constructor() {
    const say =
      (level: string) =>
      (event: string, members: object = {}): void => {
        this.lines.push({ level, event, members: members as Record<string, unknown> });
      };
    const log: Log = { ...silentLog, warn: say('warn'), info: say('info') };
    this.sensor = new LoadSensor({
      clock: this.clock,
      log,
      metrics: this.metrics,
      guard: this.guard,
      descriptors: { limit: 1000, count: () => this.used },
      delayLimitMs: () => 400,
      act: ({ rung }) => this.acted.push(rung),
    });
  }

  ticks(count: number, lateness = 0): void {
    this.clock.lateness = lateness;
    for (let i = 0; i < count; i++) this.clock.tick();
  }

  value(name: string, label?: string): number {
    const family = this.metrics.collect().find((each) => each.name === `turnpike_${name}`);
    const found = family?.values.filter(({ labels }) => label === undefined || Object.values(labels).includes(label));
    return found?.[0]?.value ?? Number.NaN;
  }
}

it('reads twice a second and says every change once, with what caused it', () => {
  const scene = new Scene();
  scene.ticks(50);
  expect(scene.acted).toHaveLength(10);
  expect(scene.lines).toEqual([]);
  scene.used = 910;
  scene.ticks(5);
  expect(scene.lines).toEqual([
    {
      level: 'warn',
      event: 'overload',
      members: { rung: 'shed', from: 'calm', delayMs: 0, descriptors: 910, descriptorLimit: 1000 },
    },
  ]);
  scene.ticks(20);
  expect(scene.lines).toHaveLength(1);
  expect(scene.sensor.rung).toBe('shed');
  expect([scene.value('overload_workers', 'shed'), scene.value('overload_workers', 'calm')]).toEqual([1, 0]);
  scene.used = 100;
  scene.ticks(100);
  expect(scene.lines.map(({ level, members }) => `${level} ${String(members['rung'])}`)).toEqual([
    'warn shed',
    'info close-idle',
    'info calm',
  ]);
  expect(scene.value('overload_changes_total', 'calm')).toBe(1);
  expect(scene.value('overload_workers', 'calm')).toBe(1);
});

it('climbs for an event loop that is always late, and not for one long pause', () => {
  const scene = new Scene();
  scene.ticks(20);
  scene.ticks(1, 3000);
  scene.ticks(20);
  expect(scene.lines).toEqual([]);
  scene.ticks(20, 600);
  expect(scene.sensor.rung).toBe('shed');
  expect(scene.sensor.reading.delayMs).toBeGreaterThan(500);
  scene.ticks(100);
  expect(scene.sensor.rung).toBe('calm');
});

it('refuses what stays first, and of the requests an even share', () => {
  const scene = new Scene();
  const shed = (kind: ShedKind, of: number): number =>
    Array.from({ length: of }, () => scene.guard.sheds(kind)).filter(Boolean).length;
  expect(shed('request', 10) + shed('tunnel', 10) + shed('flow', 10) + shed('websocket', 10)).toBe(0);
  scene.used = 900;
  scene.ticks(5);
  expect([shed('tunnel', 10), shed('flow', 10), shed('websocket', 10), shed('request', 10)]).toEqual([10, 10, 10, 5]);
  expect(scene.value('overload_shed_total', 'request')).toBe(5);
  expect(scene.value('overload_shed_total', 'tunnel')).toBe(10);
  scene.ticks(20);
  expect(shed('request', 10)).toBe(10);
});

it('has room for connections up to the ceiling, and finds out when some of it comes back', () => {
  const scene = new Scene();
  scene.used = 940;
  scene.ticks(5);
  const admitted = (): number => {
    let count = 0;
    while (count < 100 && scene.guard.hasRoom()) {
      count++;
      scene.used += 2;
    }
    return count;
  };
  expect(admitted()).toBe(5);
  expect(scene.guard.hasRoom()).toBe(false);
  scene.used -= 20;
  expect(admitted()).toBe(10);
});

it('counts the descriptors of this process', () => {
  const { limit, count } = ownDescriptors();
  expect(limit).toBeGreaterThan(100);
  // The listing has a descriptor of its own.
  expect(Math.abs(count() - readdirSync('/proc/self/fd').length)).toBeLessThanOrEqual(2);
});
