// Who may run twice: whether a service is replaced while its old generation still serves, or after it is gone.
// Invariant: what either generation holds alone (data, devices, UDP sessions, a fixed port) decides; in doubt sequential.
import type { AppService } from './app.ts';

/** A volume, bind, device or UDP interface: two generations at once would write to the same thing. */
export function isSingleWriter(service: AppService): boolean {
  return (
    service.volumes.length > 0 ||
    service.binds.length > 0 ||
    service.devices.length > 0 ||
    holdsUdp(service) ||
    shapeHolds(service)
  );
}

export type ReplacementMode = 'overlap' | 'sequential';

/** @param running  the generation that serves now; null for a first deploy */
export function replacementMode(next: AppService, running: AppService | null): ReplacementMode {
  return [next, running].some((each) => each !== null && (isSingleWriter(each) || holdsPort(each)))
    ? 'sequential'
    : 'overlap';
}

/** Flows stay with the backend they began on. */
function holdsUdp(service: AppService): boolean {
  return service.udp.length > 0 || service.publications.some((each) => each.protocol === 'udp');
}

/** A port of this machine that two containers cannot publish at once. */
function holdsPort(service: AppService): boolean {
  return (
    service.publications.some((each) => each.hostPort !== null) ||
    service.shape?.network === 'host' ||
    service.shape?.security.networkPolicy === 'host'
  );
}

function shapeHolds({ shape }: AppService): boolean {
  return shape !== null && (shape.hostBinds.length > 0 || shape.hostDevices.length > 0);
}
