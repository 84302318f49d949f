// Where an entrypoint listens, as `publish` names it.
// Invariant: one spelling for one listener: no host for every address, IPv6 in brackets.

/** `:25565`, `127.0.0.1:25565`, `[::1]:25565` */
export function formatListener({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * A manifest opens exactly what it names. Asked when it is applied and again before a deploy: the entrypoint may have moved.
 * @param publish  null: left out
 */
export function listensAt(
  entrypoint: { readonly host: string; readonly port: number },
  publish: string | null,
): boolean {
  return publish === null || publish === formatListener(entrypoint);
}
