// The changes between two configurations as `diff` and `reload` print them.
// Invariant: every change is one marked line, its details indented below.
import type { Change, RoutingChanges } from '../model/changes.ts';
import type { Style, Terminal } from './terminal.ts';

const marks: Readonly<Record<Change['kind'], { readonly mark: string; readonly style: Style }>> = {
  added: { mark: '+', style: 'green' },
  removed: { mark: '-', style: 'red' },
  changed: { mark: '~', style: 'yellow' },
};

export function formatChanges(changes: RoutingChanges, terminal: Terminal): string[] {
  return [
    ...changes.entrypoints.flatMap((change) => formatChange('entrypoint', change, terminal)),
    ...changes.hosts.flatMap((change) => formatChange('host', change, terminal)),
    ...changes.routers.flatMap((change) => formatChange('router', change, terminal)),
    ...changes.services.flatMap((change) => formatChange('service', change, terminal)),
    ...changes.settings.map((name) => `${terminal.style('yellow', '~')} setting ${name}`),
  ];
}

function formatChange(noun: string, change: Change, terminal: Terminal): string[] {
  const { mark, style } = marks[change.kind];
  return [`${terminal.style(style, mark)} ${noun} ${change.name}`, ...change.details.map((detail) => `    ${detail}`)];
}
