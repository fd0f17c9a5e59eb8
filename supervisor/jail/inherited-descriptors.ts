/** Descriptors that this process was started with beside its three: Node makes none that a child would inherit. */
import { readdirSync, readFileSync } from 'node:fs';

/** `O_CLOEXEC`, in the octal digits of /proc. */
const CLOSE_ON_EXEC = 0o2000000;

/** Their numbers; none where /proc cannot be read. Node opens everything with close-on-exec, so they never become more. */
export function inheritedDescriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd')
      .map(Number)
      .filter((fd) => fd > 2 && isInherited(fd));
  } catch {
    return [];
  }
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // The one that the listing itself was read by.
    return false;
  }
}
