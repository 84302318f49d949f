// Small integers for the header fields that the proxy looks at, so that no name is lower-cased to be compared.
// Invariant: `fieldIdOf` is exact and case-insensitive; anything it does not know is `FieldId.Other`.

export const FieldId = {
  /** Dropped by us: serialisers skip it. */
  Removed: -1,
  Other: 0,
  Host: 1,
  Connection: 2,
  ContentLength: 3,
  TransferEncoding: 4,
  Te: 5,
  Trailer: 6,
  Upgrade: 7,
  KeepAlive: 8,
  ProxyConnection: 9,
  Expect: 10,
  XForwardedFor: 11,
  XForwardedProto: 12,
  XForwardedHost: 13,
  XForwardedPort: 14,
  XRealIp: 15,
  Forwarded: 16,
  XRequestId: 17,
  Cookie: 18,
  SetCookie: 19,
  Accept: 20,
  AcceptEncoding: 21,
  ContentType: 22,
  ContentEncoding: 23,
  ContentRange: 24,
  CacheControl: 25,
  Etag: 26,
  Vary: 27,
  Authorization: 28,
  Origin: 29,
  UserAgent: 30,
  Referer: 31,
  Date: 32,
  Location: 33,
  Http2Settings: 34,
  SecWebSocketKey: 35,
  SecWebSocketAccept: 36,
  SecWebSocketProtocol: 37,
  SecWebSocketExtensions: 38,
  SecWebSocketVersion: 39,
  RetryAfter: 40,
  IfNoneMatch: 41,
  AcceptRanges: 42,
  Server: 43,
  XAccelBuffering: 44,
  ProxyAuthenticate: 45,
  ProxyAuthorization: 46,
  StrictTransportSecurity: 47,
  ContentMd5: 48,
  IdempotencyKey: 49,
  SecFetchMode: 50,
  SecFetchSite: 51,
  XFrameOptions: 52,
  ContentSecurityPolicy: 53,
  ContentSecurityPolicyReportOnly: 54,
} as const;

const names: Record<string, number> = {
  host: FieldId.Host,
  connection: FieldId.Connection,
  'content-length': FieldId.ContentLength,
  'transfer-encoding': FieldId.TransferEncoding,
  te: FieldId.Te,
  trailer: FieldId.Trailer,
  upgrade: FieldId.Upgrade,
  'keep-alive': FieldId.KeepAlive,
  'proxy-connection': FieldId.ProxyConnection,
  expect: FieldId.Expect,
  'x-forwarded-for': FieldId.XForwardedFor,
  'x-forwarded-proto': FieldId.XForwardedProto,
  'x-forwarded-host': FieldId.XForwardedHost,
  'x-forwarded-port': FieldId.XForwardedPort,
  'x-real-ip': FieldId.XRealIp,
  forwarded: FieldId.Forwarded,
  'x-request-id': FieldId.XRequestId,
  cookie: FieldId.Cookie,
  'set-cookie': FieldId.SetCookie,
  accept: FieldId.Accept,
  'accept-encoding': FieldId.AcceptEncoding,
  'content-type': FieldId.ContentType,
  'content-encoding': FieldId.ContentEncoding,
  'content-range': FieldId.ContentRange,
  'cache-control': FieldId.CacheControl,
  etag: FieldId.Etag,
  vary: FieldId.Vary,
  authorization: FieldId.Authorization,
  origin: FieldId.Origin,
  'user-agent': FieldId.UserAgent,
  referer: FieldId.Referer,
  date: FieldId.Date,
  location: FieldId.Location,
  'http2-settings': FieldId.Http2Settings,
  'sec-websocket-key': FieldId.SecWebSocketKey,
  'sec-websocket-accept': FieldId.SecWebSocketAccept,
  'sec-websocket-protocol': FieldId.SecWebSocketProtocol,
  'sec-websocket-extensions': FieldId.SecWebSocketExtensions,
  'sec-websocket-version': FieldId.SecWebSocketVersion,
  'retry-after': FieldId.RetryAfter,
  'if-none-match': FieldId.IfNoneMatch,
  'accept-ranges': FieldId.AcceptRanges,
  server: FieldId.Server,
  'x-accel-buffering': FieldId.XAccelBuffering,
  'proxy-authenticate': FieldId.ProxyAuthenticate,
  'proxy-authorization': FieldId.ProxyAuthorization,
  'strict-transport-security': FieldId.StrictTransportSecurity,
  'content-md5': FieldId.ContentMd5,
  'idempotency-key': FieldId.IdempotencyKey,
  'sec-fetch-mode': FieldId.SecFetchMode,
  'sec-fetch-site': FieldId.SecFetchSite,
  'x-frame-options': FieldId.XFrameOptions,
  'content-security-policy': FieldId.ContentSecurityPolicy,
  'content-security-policy-report-only': FieldId.ContentSecurityPolicyReportOnly,
};

interface Candidate {
  readonly id: number;
  readonly lower: string;
  /** As HTTP/1.1 senders mostly write it ("Content-Length"): one comparison instead of a walk over the letters. */
  readonly title: string;
}

const maxLength = Math.max(...Object.keys(names).map((name) => name.length));
// Candidates by length and first letter: a look-up is one array read, then at most a few whole-name compares.
const buckets: (Candidate[] | undefined)[] = new Array((maxLength + 1) * 32);
for (const [lower, id] of Object.entries(names)) {
  const slot = lower.length * 32 + (lower.charCodeAt(0) & 31);
  let bucket = buckets[slot];
  if (bucket === undefined) buckets[slot] = bucket = [];
  bucket.push({ id, lower, title: lower.replace(/\b[a-z]/g, (letter) => letter.toUpperCase()) });
}

/** The id of a field name (a token, any case). No allocation. */
export function fieldIdOf(name: string): number {
  const length = name.length;
  if (length > maxLength || length === 0) return FieldId.Other;
  const bucket = buckets[length * 32 + (name.charCodeAt(0) & 31)];
  if (bucket === undefined) return FieldId.Other;
  for (let i = 0; i < bucket.length; i++) {
    const candidate = bucket[i]!;
    if (name === candidate.title || name === candidate.lower || equalsIgnoringCase(name, candidate.lower)) {
      return candidate.id;
    }
  }
  return FieldId.Other;
}

/** True when `name` equals `lower` (already lower case, same length) but for ASCII case. */
function equalsIgnoringCase(name: string, lower: string): boolean {
  for (let i = 0; i < lower.length; i++) {
    const a = name.charCodeAt(i);
    if (a !== lower.charCodeAt(i) && !(a >= 65 && a <= 90 && a + 32 === lower.charCodeAt(i))) return false;
  }
  return true;
}
