/** Parses untrusted Markdown in a worker, within a time. */
import { useEffect, useState } from 'react';
import { loadPart } from '../shell/load-chunk.ts';
import type { MarkdownTree } from './markdown-tree.ts';

/** Twice what a readme of the largest size takes, 256 KiB of short paragraphs. Meanwhile the rest of the page works. Milliseconds. */
const PARSE_MAX_MS = 5_000;

/**
 * @returns the parsed text; undefined until then, null if it could not be parsed in that time; a function that tries again; and why
 * the worker could not be loaded
 */
export function useMarkdown(
  text: string,
): readonly [tree: MarkdownTree | null | undefined, parseAgain: () => void, fault: Error | null] {
  const [parsed, setParsed] = useState<{ readonly text: string; readonly tree: MarkdownTree | null }>();
  const [fault, setFault] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt parses the same text
  useEffect(() => {
    const worker = new Worker(new URL('./markdown-worker.ts', import.meta.url), { type: 'module' });
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const finish = (tree: MarkdownTree | null) => {
      worker.terminate();
      setFault(null);
      setParsed({ text, tree });
    };
    const parse = () => {
      if (isOver) return;
      worker.onmessage = ({ data }: MessageEvent<MarkdownTree | null>) => finish(data);
      worker.onerror = () => finish(null);
      timer = setTimeout(() => finish(null), PARSE_MAX_MS);
      worker.postMessage(text);
    };
    const load = () =>
      new Promise<unknown>((resolve, reject) => {
        // Its first message says that it is ready.
        worker.onmessage = resolve;
        worker.onerror = reject;
      });
    loadPart(load, 'markdown-worker').then(parse, (error) => isOver || setFault(error));
    return () => {
      isOver = true;
      clearTimeout(timer);
      worker.terminate();
    };
  }, [text, attempt]);
  const parseAgain = () => {
    setFault(null);
    setParsed(undefined);
    setAttempt((before) => before + 1);
  };
  return [parsed?.text === text ? parsed.tree : undefined, parseAgain, fault];
}
