/** Formats numbers in English, as the texts around them: 4.550 of another language would read as 4.55. */
export const NUMBER_LANGUAGE = 'en';
const NUMBER = new Intl.NumberFormat(NUMBER_LANGUAGE, { maximumFractionDigits: 1 });

export const formatNumber = (value: number): string => NUMBER.format(value);

export const formatMilliseconds = (ms: number | null): string => (ms === null ? '–' : `${NUMBER.format(ms)} ms`);
