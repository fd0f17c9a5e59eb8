/** Whether PostgreSQL can store a text: it rejects U+0000 and lone surrogates. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
