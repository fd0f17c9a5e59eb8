/** Highlights code with CSS classes, because the content security policy forbids inline styles. */
import highlighter from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import json from 'highlight.js/lib/languages/json';
import markdown from 'highlight.js/lib/languages/markdown';
import typescript from 'highlight.js/lib/languages/typescript';
import yaml from 'highlight.js/lib/languages/yaml';

/** Languages by the word after the code fence. */
const LANGUAGES = { sh: bash, json, md: markdown, ts: typescript, yaml } as const;
for (const [name, language] of Object.entries(LANGUAGES)) highlighter.registerLanguage(name, language);

/** @returns highlighted markup; for an unknown language, the escaped text */
export function highlightCode(code: string, language: string): string {
  if (!Object.hasOwn(LANGUAGES, language)) return escapeHtml(code);
  return highlighter.highlight(code, { language }).value;
}

/** The fence language for a file, from its extension. */
export function detectLanguage(path: string): string {
  const ending = path.slice(path.lastIndexOf('.') + 1);
  return Object.hasOwn(LANGUAGES, ending) ? ending : '';
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
