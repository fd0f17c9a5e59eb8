/** Code in colours, as classes: the site's policy lets no style into the markup. */
import highlighter from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import json from 'highlight.js/lib/languages/json';
import markdown from 'highlight.js/lib/languages/markdown';
import typescript from 'highlight.js/lib/languages/typescript';
import yaml from 'highlight.js/lib/languages/yaml';

/** By what stands behind the fence. */
const LANGUAGES = { sh: bash, json, md: markdown, ts: typescript, yaml } as const;
for (const [name, language] of Object.entries(LANGUAGES)) highlighter.registerLanguage(name, language);

/** @returns escaped markup; without a known language the text alone */
export function highlighted(code: string, language: string): string {
  if (!Object.hasOwn(LANGUAGES, language)) return escaped(code);
  return highlighter.highlight(code, { language }).value;
}

/** What stands behind the fence of a file, by its name. */
export function languageOf(path: string): string {
  const ending = path.slice(path.lastIndexOf('.') + 1);
  return Object.hasOwn(LANGUAGES, ending) ? ending : '';
}

export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
