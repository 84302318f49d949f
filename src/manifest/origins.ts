// Where in a manifest each host, listener, port and service was asked for, for whoever meets a rival later.
// Invariant: one place for each claim, "blog.toml:12 services.web.http[0].host"; nothing but messages depends on it.
import { basename } from 'node:path';
import { type Document, formatPath, type Path } from '../config/syntax.ts';
import type { TomlManifest } from './toml-keys.ts';
import type { YamlApp } from './yaml-keys.ts';

/** By claim: `service web`, `host blog.example.com`, `entrypoint game tcp`, `port 8090`. */
export type Origins = Readonly<Record<string, string>>;

export function originsOfToml(manifest: TomlManifest, document: Document): Origins {
  const places: [string, Path][] = [];
  for (const [name, service] of manifest.services ?? []) {
    const path = ['services', name];
    places.push([`service ${name}`, path]);
    for (const { index, value } of service.http) {
      if (value.host !== null) places.push([`host ${value.host}`, [...path, 'http', index, 'host']]);
    }
    for (const transport of ['tcp', 'udp'] as const) {
      for (const { index, value } of service[transport]) {
        places.push([`entrypoint ${value.entrypoint} ${transport}`, [...path, transport, index]]);
      }
    }
  }
  return written(places, document);
}

export function originsOfYaml(app: YamlApp, document: Document): Origins {
  const places = app.ports.map(({ index, value }): [string, Path] => [`port ${value.host}`, ['app', 'ports', index]]);
  // The first of several addresses of a host port.
  return written([...places].reverse(), document);
}

function written(places: readonly (readonly [string, Path])[], document: Document): Origins {
  const file = basename(document.file);
  return Object.fromEntries(
    places.map(([claim, path]) => [claim, `${file}:${document.locate(path).key.line} ${formatPath(path)}`]),
  );
}
