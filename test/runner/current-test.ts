/** The file that a shared process runs just now. */
import type { Test } from 'tap';

let current: Test | undefined;

export function setCurrentTest(test: Test): void {
  current = test;
}

export function getCurrentTest(): Test | undefined {
  return current;
}
