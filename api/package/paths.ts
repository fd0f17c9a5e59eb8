/** Validates the paths of a package. Pure. */
import { describeHiddenCharacter } from '../../sdk/contract/visible-text.ts';

/** Maximum depth: deeper trees break tools on some systems. Segments. */
const PATH_MAX_DEPTH = 16;
/** Maximum length of a name on common file systems. UTF-8 bytes. */
const SEGMENT_MAX_BYTES = 255;
const PATH_MAX_BYTES = 1024;

const CONTROL = /\p{Cc}/u;
const DRIVE = /^[A-Za-z]:/;
const DEVICE = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?$/i;

/**
 * Returns why a path is invalid, as the end of a sentence; null: it is valid.
 *
 * @param path separated by `/`, without one at the end
 */
export function validatePath(path: string): string | null {
  if (path === '') return 'has no name';
  if (!path.isWellFormed()) return 'is not valid Unicode';
  if (CONTROL.test(path)) return 'holds a control character';
  const hidden = describeHiddenCharacter(path, 'line');
  if (hidden) return hidden;
  if (path.includes('\\')) return 'holds a backslash; use / between folders';
  if (path.startsWith('/')) return 'is absolute; paths start inside the package';
  if (DRIVE.test(path)) return 'starts with a drive letter';
  if (path.includes(':')) return 'holds a colon';
  if (Buffer.byteLength(path) > PATH_MAX_BYTES) return `is longer than ${PATH_MAX_BYTES} bytes`;
  const segments = path.split('/');
  if (segments.length > PATH_MAX_DEPTH) return `is more than ${PATH_MAX_DEPTH} folders deep`;
  for (const segment of segments) {
    const fault = segmentFault(segment);
    if (fault) return fault;
  }
  return null;
}

function segmentFault(segment: string): string | null {
  if (segment === '') return 'holds an empty folder name';
  if (segment === '.' || segment === '..') return `holds “${segment}”, which leaves the package`;
  if (Buffer.byteLength(segment) > SEGMENT_MAX_BYTES) return `holds a name longer than ${SEGMENT_MAX_BYTES} bytes`;
  if (DEVICE.test(segment)) return `holds “${segment}”, a device name on Windows`;
  if (/[. ]$/.test(segment)) return `holds “${segment}”, a name that ends with a dot or a space`;
  return null;
}

/** Files that operating systems add automatically; not part of the package. */
export function isSystemFile(path: string): boolean {
  const segments = path.split('/');
  const name = segments.at(-1);
  return segments.includes('__MACOSX') || name === '.DS_Store' || name === 'Thumbs.db';
}

/** Paths with the same folded form are equal on file systems that ignore case or normalize names. */
const foldPath = (path: string): string => path.normalize('NFC').toLowerCase().normalize('NFC');

/**
 * Finds the first conflict between paths: equal paths (also by case or normalization), or a path that is both file and
 * folder.
 *
 * @returns the later path and the reason, or null
 */
export function findClash(paths: readonly string[]): { path: string; fault: string } | null {
  const files = new Map<string, string>();
  for (const path of paths) {
    const folded = foldPath(path);
    const other = files.get(folded);
    if (other === path) return { path, fault: 'is duplicated' };
    if (other !== undefined) return { path, fault: `is the same as “${other}” where letter case does not count` };
    files.set(folded, path);
  }
  for (const path of paths) {
    const segments = foldPath(path).split('/');
    for (let depth = 1; depth < segments.length; depth += 1) {
      const file = files.get(segments.slice(0, depth).join('/'));
      if (file !== undefined) return { path, fault: `lies below “${file}”, which is a file` };
    }
  }
  return null;
}

/** Returns the single folder that contains every path, with its `/`; empty without one. */
export function findWrapperFolder(paths: readonly string[]): string {
  const [first] = paths;
  const end = first?.indexOf('/') ?? -1;
  if (first === undefined || end < 0) return '';
  const wrapper = first.slice(0, end + 1);
  return paths.every((path) => path.startsWith(wrapper)) ? wrapper : '';
}

/** Compares the UTF-8 bytes of paths; the source hash depends on this order. */
export const comparePathBytes = (a: { path: string }, b: { path: string }): number =>
  Buffer.compare(Buffer.from(a.path), Buffer.from(b.path));
