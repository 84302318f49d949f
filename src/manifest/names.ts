// The names a manifest gives: apps, services, secrets, volumes, variables.
// Invariant: a name that passes may be part of a path, a label, a DNS alias or a command line of an engine as it is.
import { type Form, type JsonSchema, quote, Refusal, text } from '../config/form.ts';
import { unrepeated } from './unrepeated.ts';

/** Names that mean something else on every installation. */
export const reservedNames = ['gordon', 'turnpike', 'registry', 'admin', 'localhost'] as const;

const appAccepts = 'lower-case letters, digits and single hyphens inside, at most 63, like "blog"';

/** A DNS label without `--`, which separates the parts of names that are made from it. */
export function judgeAppName(value: string): Refusal | null {
  if ((reservedNames as readonly string[]).includes(value.toLowerCase())) {
    return new Refusal(`${quote(value)} is reserved`, `a name other than ${reservedNames.join(', ')}`);
  }
  if (value.includes('--')) return new Refusal(`${quote(value)} has two hyphens in a row`);
  if (value.length > 63) return new Refusal(`${quote(value)} is longer than 63 characters`);
  if (value !== value.toLowerCase()) {
    return new Refusal(`${quote(value)} has capitals`, quote(value.toLowerCase()));
  }
  return /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(value) ? null : new Refusal(`${quote(value)} is not a DNS label`);
}

export const appName: Form<string> = text(appAccepts, (value) => judgeAppName(value) ?? value, {
  pattern: '^[a-z0-9](?:-?[a-z0-9])*$',
  maxLength: 63,
  not: { enum: reservedNames },
});

const plainAccepts = 'lower-case letters, digits, "_", "." and "-" after a letter or digit, at most 63';
const plainPattern = '^[a-z0-9][a-z0-9_.-]{0,62}$';

/** Services, secrets, volumes, databases. A dot or a hyphen in front would make a hidden file or an option of it. */
export function judgePlainName(value: string): Refusal | null {
  if (/^[a-z0-9][a-z0-9_.-]{0,62}$/.test(value)) return null;
  if (value.length > 63) return new Refusal(`${quote(value)} is longer than 63 characters`, plainAccepts);
  return new Refusal(`${quote(value)} is not a name`, plainAccepts);
}

export const plainName: Form<string> = text(plainAccepts, (value) => judgePlainName(value) ?? value, {
  pattern: plainPattern,
});

/** Names of operators' policies: mounts and devices. */
export const policyName: Form<string> = text(
  `${plainAccepts}, without "--"`,
  (value) => {
    const refusal = judgePlainName(value);
    if (refusal !== null) return refusal;
    return value.includes('--') ? new Refusal(`${quote(value)} has two hyphens in a row`) : value;
  },
  { pattern: plainPattern, not: { pattern: '--' } },
);

export const secretName: Form<string> = unrepeated(
  text(
    `the name of a secret, never its value: ${plainAccepts}`,
    (value) => (judgePlainName(value) === null ? value : new Refusal('is not the name of a secret')),
    { pattern: plainPattern },
  ),
  ['string'],
  'is not the name of a secret',
);

export const variableAccepts = 'letters, digits and "_", not a digit first, like LOG_LEVEL';

export function judgeVariable(value: string): Refusal | null {
  if (value.length > 255) return new Refusal('is longer than 255 characters', variableAccepts);
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(value)
    ? null
    : new Refusal(`${quote(value)} is not the name of a variable`, variableAccepts);
}

export const variableName: Form<string> = text(variableAccepts, (value) => judgeVariable(value) ?? value, {
  pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
});

export const variableNames: JsonSchema = { pattern: '^[A-Za-z_][A-Za-z0-9_]*$' };
export const plainNames: JsonSchema = { pattern: plainPattern };

/** The name of a file and nothing else: no directory, no way up. */
export const bareFilename: Form<string> = unrepeated(
  text(
    'the bare name of a file: letters, digits, "_", "." and "-", no "/" and no ".."',
    (value) => {
      if (value.includes('/') || value.includes('\\')) return new Refusal('has a directory in it');
      if (value.includes('..')) return new Refusal('has ".." in it');
      return /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(value) ? value : new Refusal('is not the name of a file');
    },
    { pattern: '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$', not: { pattern: '\\.\\.' } },
  ),
  ['string'],
  'is not the name of a file',
);
