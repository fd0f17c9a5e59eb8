/** What a text column can hold: PostgreSQL refuses U+0000 and half surrogate pairs. */

/** Whether a text can be stored as it is. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
