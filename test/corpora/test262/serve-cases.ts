/** The part of an engine's process that runs cases of Test262 one after another. */
import { readFileSync } from 'node:fs';
import type { EngineCase, EngineResult } from './engine.ts';

/** An asynchronous case that says nothing has failed after this time. Milliseconds. */
const ASYNC_MS = 2_000;

/** Evaluates one program with these globals, and throws what it throws. */
type Evaluate = (source: string, globals: Readonly<Record<string, unknown>>) => void;

/**
 * Runs the cases that the parent sends, and answers each.
 *
 * @param isSpoiled whether a case left something behind that cannot be put back: the process ends, and another goes on
 */
export function serveCases(evaluate: Evaluate, isSpoiled: () => boolean = () => false): void {
  // Work that a case leaves running must not end the other cases.
  process.on('uncaughtException', () => undefined);
  process.on('unhandledRejection', () => undefined);
  process.on('message', async (cases: readonly EngineCase[]) => {
    for (const one of cases) {
      const result: EngineResult = { id: one.id, error: await runCase(evaluate, one) };
      await new Promise((resolve) => process.send?.(result, resolve));
      if (isSpoiled()) process.exit(0);
    }
  });
}

async function runCase(evaluate: Evaluate, { file, isAsync, negative }: EngineCase): Promise<string | null> {
  const done = Promise.withResolvers<string>();
  const globals = { print: (line: unknown) => done.resolve(String(line)), $262: { detachArrayBuffer } };
  try {
    evaluate(readFileSync(file, 'utf8'), globals);
  } catch (error) {
    return negative !== null && nameOf(error) === negative ? null : describe(error);
  }
  if (negative !== null) return `no ${negative} was thrown`;
  if (!isAsync) return null;
  const timer = setTimeout(() => done.resolve('it does not end'), ASYNC_MS);
  const line = await done.promise;
  clearTimeout(timer);
  return line === 'Test262:AsyncTestComplete' ? null : line;
}

const detachArrayBuffer = (buffer: ArrayBuffer): void => void buffer.transfer();

const nameOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : '';

function describe(error: unknown): string {
  try {
    const isError = typeof error === 'object' && error !== null && 'message' in error;
    return isError ? `${nameOf(error)}: ${error.message}` : `thrown: ${String(error)}`;
  } catch {
    return 'thrown: a value without a text';
  }
}
