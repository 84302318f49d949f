// What an app says about being framed, changed so that the dashboard may frame it and no more sites than before. Pure.
// Invariant: only X-Frame-Options lines and `frame-ancestors` directives change; every other directive keeps its bytes.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';

/** @param ancestors  a source list, such as `'self' https://box.local:8000` */
export function fixFrameFields(fields: Fields, ancestors: string): void {
  const { ids, values } = fields;
  let forbade = false;
  let enforced = false;
  for (let i = 0; i < ids.length; i++) {
    switch (ids[i]) {
      case FieldId.XFrameOptions:
        forbade = true;
        ids[i] = FieldId.Removed;
        break;
      case FieldId.ContentSecurityPolicy:
      case FieldId.ContentSecurityPolicyReportOnly: {
        const value = values[i]!;
        const fixed = withAncestors(value, ancestors);
        if (ids[i] === FieldId.ContentSecurityPolicy && fixed !== null) enforced = true;
        if (fixed !== null) fields.replace(i, fixed);
        break;
      }
    }
  }
  // Without its X-Frame-Options any site could frame the app.
  if (forbade && !enforced) {
    fields.push('Content-Security-Policy', `frame-ancestors ${ancestors}`, FieldId.ContentSecurityPolicy);
  }
}

/** Null: there is no such directive. One field may hold several policies (CSP3 §2.2.1). */
function withAncestors(value: string, ancestors: string): string | null {
  if (!/frame-ancestors/i.test(value)) return null;
  let found = false;
  const fixed = value
    .split(',')
    .map((policy) =>
      policy
        .split(';')
        .map((directive) => {
          const match = /^([\t\n\f\r ]*)(frame-ancestors)(?=[\t\n\f\r ]|$).*?([\t\n\f\r ]*)$/is.exec(directive);
          if (match === null) return directive;
          found = true;
          return `${match[1]}${match[2]} ${ancestors}${match[3]}`;
        })
        .join(';'),
    )
    .join(',');
  return found ? fixed : null;
}
