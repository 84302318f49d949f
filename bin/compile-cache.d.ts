export function keepCompiledCode(env?: NodeJS.ProcessEnv): void;
export function isOurs(directory: string): boolean;
