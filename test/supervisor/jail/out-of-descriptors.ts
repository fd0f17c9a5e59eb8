/**
 * A supervisor that has no descriptor left when it starts a child: first without a helper process, then with one, whose messages
 * bring descriptors. After each of these starts, it starts a child with free descriptors. Sends how the four children ended.
 */
import { closeSync, openSync } from 'node:fs';
import { makeJail } from '../../../supervisor/jail/jail.ts';
import type { ExitInfo } from '../../../supervisor/jail/watched-process.ts';

// A program that ends with its input, as a plugin's does: bubblewrap that is killed while it starts may leave it behind.
const jail = makeJail({ directory: String(process.argv[2]), program: 'process.stdin.resume();' });

async function startWithoutDescriptors(): Promise<ExitInfo> {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // None is left.
  }
  const end = await jail.spawn().exited;
  for (const descriptor of taken) closeSync(descriptor);
  return end;
}

async function startAndKill(): Promise<ExitInfo> {
  const jailed = jail.spawn();
  await Promise.all([jailed.pipes, jailed.confined]);
  jailed.kill();
  return jailed.exited;
}

const ends = [
  await startWithoutDescriptors(),
  await startAndKill(),
  await startWithoutDescriptors(),
  await startAndKill(),
];
process.send?.(ends);
