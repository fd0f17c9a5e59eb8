/** Codes of a disk, or of a user's share of it, without room. */
const FULL: readonly (string | undefined)[] = ['ENOSPC', 'EDQUOT'];

/** Whether the system refused to write because a disk, or the user's quota of it, is used up. */
export const isDiskFull = (error: unknown): boolean =>
  FULL.includes((error as NodeJS.ErrnoException | undefined)?.code);
