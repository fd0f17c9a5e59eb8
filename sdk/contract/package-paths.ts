/** The rules for the paths of a package. The command line and the console choose the files of an author's folder with them. */
import { describeHiddenCharacter } from './visible-text.ts';

/** Maximum depth: deeper trees break tools on some systems. Segments. */
export const PATH_MAX_DEPTH = 16;
/** Maximum length of a name on common file systems. UTF-8 bytes. */
export const SEGMENT_MAX_BYTES = 255;
export const PATH_MAX_BYTES = 1024;
const TOO_LONG = `is longer than ${PATH_MAX_BYTES} bytes`;

const encoder = new TextEncoder();
const countBytes = (text: string): number => encoder.encode(text).byteLength;

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
  // Checked first, because a path may be as long as a request and each check reads all of it. UTF-8 has no fewer bytes than characters.
  if (path.length > PATH_MAX_BYTES) return TOO_LONG;
  if (!path.isWellFormed()) return 'is not valid Unicode';
  if (CONTROL.test(path)) return 'holds a control character';
  const hidden = describeHiddenCharacter(path, 'line');
  if (hidden) return hidden;
  if (path.includes('\\')) return 'holds a backslash; use / between folders';
  if (path.startsWith('/')) return 'is absolute; paths start inside the package';
  if (DRIVE.test(path)) return 'starts with a drive letter';
  if (path.includes(':')) return 'holds a colon';
  const segments = path.split('/');
  if (segments.includes('..')) return 'holds “..”, which leaves the package';
  if (segments.includes('.')) return 'holds the folder “.”; write the path without it';
  if (countBytes(path) > PATH_MAX_BYTES) return TOO_LONG;
  if (segments.length > PATH_MAX_DEPTH) return `is more than ${PATH_MAX_DEPTH} folders deep`;
  for (const segment of segments) {
    const fault = findSegmentFault(segment);
    if (fault) return fault;
  }
  return null;
}

function findSegmentFault(segment: string): string | null {
  if (segment === '') return 'holds an empty folder name';
  if (countBytes(segment) > SEGMENT_MAX_BYTES) return `holds a name longer than ${SEGMENT_MAX_BYTES} bytes`;
  if (DEVICE.test(segment)) return `holds “${segment}”, a device name on Windows`;
  if (/[. ]$/.test(segment)) return `holds “${segment}”, a name that ends with a dot or a space`;
  return null;
}

/** Folders and files of the author's own tools. Deeper than at the top, `dist` and `coverage` may be a skill or a library. */
const TOOL_FOLDERS: ReadonlySet<string> = new Set(['node_modules', '__MACOSX']);
const TOOL_FOLDERS_AT_TOP: ReadonlySet<string> = new Set(['dist', 'coverage']);
const TOOL_FILES =
  /^(package(-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.(json|lock)|tsconfig.*\.json|Thumbs\.db)$|\.d\.ts$|\.test\.[cm]?[jt]s$|\.(?:tgz|zip|log)$/;

/** Whether a folder in an author's folder is not part of the package. @param path in the author's folder */
export function isToolFolder(path: string): boolean {
  const names = path.split('/');
  return (
    TOOL_FOLDERS_AT_TOP.has(names[0] ?? '') || names.some((name) => name.startsWith('.') || TOOL_FOLDERS.has(name))
  );
}

/** Folders whose files agents and code read as they are. */
const CONTENT_FOLDERS: ReadonlySet<string> = new Set(['assets', 'skills']);

/**
 * Whether a file in an author's folder is not part of the package: hidden files, which may hold secrets (`.env`), and the
 * files and folders of the author's tools.
 *
 * @param path in the author's folder
 */
export function isToolFile(path: string): boolean {
  const folders = path.split('/');
  const name = folders.pop() ?? '';
  if (name.startsWith('.') || isToolFolder(folders.join('/'))) return true;
  return !CONTENT_FOLDERS.has(folders[0] ?? '') && TOOL_FILES.test(name);
}

/** A path of a package, or a folder that a zip names. */
export interface PackagePath {
  readonly path: string;
  readonly isFolder: boolean;
}
interface Taken extends PackagePath {
  /** Whether only a path below it names it. */
  readonly isImplied: boolean;
}
interface TakenPath extends Taken {
  /** Stands for the path in the keys of the paths below it. */
  readonly number: number;
}

/** Paths without conflicts: no file system takes two of them for the same file, and none is both a file and a folder. */
export class DistinctPaths {
  readonly #taken = new Map<string, TakenPath>();

  /**
   * Adds a path and its folders, also those that only the paths below them name.
   *
   * @returns why it conflicts with an earlier path, as the end of a sentence; null: it does not
   */
  add({ path, isFolder }: PackagePath): string | null {
    let [end, parent] = [-1, 0];
    for (const segment of path.split('/')) {
      end += 1 + segment.length;
      const isImplied = end < path.length;
      const one = { path: path.slice(0, end), isFolder: isFolder || isImplied, isImplied };
      // Folding whole paths would fold the first folder of each once for every folder below it.
      const key = `${parent}/${foldCase(segment)}`;
      const other = this.#taken.get(key);
      const fault = other && findFault(one, other);
      if (fault) return fault;
      parent = other?.number ?? this.#taken.size + 1;
      if (!other || other.isImplied) this.#taken.set(key, { ...one, number: parent });
    }
    return null;
  }
}

function findFault(one: Taken, other: Taken): string | null {
  const same = one.isFolder ? 'holds a folder that is the same as' : 'is the same as';
  if (one.path !== other.path) {
    const isNormalized = one.path.normalize('NFC') === other.path.normalize('NFC');
    const rule = isNormalized ? 'in another Unicode normalization (NFC)' : 'where letter case does not count';
    return `${same} “${other.path}” ${rule}`;
  }
  if (one.isFolder !== other.isFolder)
    return one.isImplied ? `lies below “${other.path}”, which is a file` : 'is both a file and a folder';
  return one.isImplied || other.isImplied ? null : 'is duplicated';
}

/**
 * Names with the same folded form are equal on file systems that ignore case or normalize names. Upper case of lower case is
 * Unicode's full folding: `ß` becomes `SS`, and both lower forms of sigma become one.
 */
const foldCase = (name: string): string => name.normalize('NFD').toLowerCase().toUpperCase().normalize('NFD');
