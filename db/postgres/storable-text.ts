/** Whether PostgreSQL can store a text: it rejects U+0000 and lone surrogates. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** Replaces what PostgreSQL cannot store. Plugins may return such texts. */
export const toStorable = (text: string, replacement = ''): string => text.replaceAll('\0', replacement).toWellFormed();
