/**
 * Parses Markdown of authors beside the page: a text of a few kilobytes can take minutes, and a parser cannot be interrupted, but
 * its worker can be ended.
 */
import { parseMarkdown } from './markdown-tree.ts';

self.onmessage = ({ data }: MessageEvent<string>) => postMessage(parseMarkdown(data));
// The page counts the time from now on.
postMessage('ready');
