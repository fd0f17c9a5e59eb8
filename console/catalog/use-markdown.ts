/** Parses untrusted Markdown in a worker, within a time. */
import { useEffect, useState } from 'react';
import type { MarkdownTree } from './markdown-worker.ts';

/** Twice what a readme of the largest size takes, 256 KiB of short paragraphs. Meanwhile the rest of the page works. Milliseconds. */
const PARSE_MAX_MS = 5_000;

/** @returns the parsed text; undefined until then, null if it could not be parsed in that time, and a function that tries again */
export function useMarkdown(text: string): readonly [tree: MarkdownTree | null | undefined, parseAgain: () => void] {
  const [parsed, setParsed] = useState<{ readonly text: string; readonly tree: MarkdownTree | null }>();
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt parses the same text
  useEffect(() => {
    const worker = new Worker(new URL('./markdown-worker.ts', import.meta.url), { type: 'module' });
    const finish = (tree: MarkdownTree | null) => {
      worker.terminate();
      setParsed({ text, tree });
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    worker.onmessage = ({ data }: MessageEvent<'ready' | MarkdownTree | null>) => {
      if (data !== 'ready') return finish(data);
      timer = setTimeout(() => finish(null), PARSE_MAX_MS);
      worker.postMessage(text);
    };
    worker.onerror = () => finish(null);
    return () => {
      clearTimeout(timer);
      worker.terminate();
    };
  }, [text, attempt]);
  const parseAgain = () => {
    setParsed(undefined);
    setAttempt((before) => before + 1);
  };
  return [parsed?.text === text ? parsed.tree : undefined, parseAgain];
}
