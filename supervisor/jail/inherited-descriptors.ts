/** Lists the descriptors above stderr that child processes would inherit. */
import { readFileSync } from 'node:fs';
import { listFolder } from './list-folder.ts';

/** `O_CLOEXEC`, in the octal digits of /proc. */
const CLOSE_ON_EXEC = 0o2000000;

/** Returns none if /proc cannot be read. The list never grows, because Node opens descriptors with close-on-exec. */
export function inheritedDescriptors(): number[] {
  return listFolder('/proc/self/fd')
    .map(Number)
    .filter((fd) => fd > 2 && isInherited(fd));
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // The descriptor that read the directory is closed by now.
    return false;
  }
}
