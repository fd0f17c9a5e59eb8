/** Every scenario, in the order in which they are played. */
import type { RuntimeChapter } from './scenario.ts';
import { answers } from './scenarios/answer-scenarios.ts';
import { connections, processes, requiredPlugins } from './scenarios/failure-scenarios.ts';
import { pieces, wholeTexts } from './scenarios/guard-scenarios.ts';
import { messages } from './scenarios/message-scenarios.ts';
import { time } from './scenarios/time-scenarios.ts';
import { tools } from './scenarios/tool-scenarios.ts';

/** Chapters with the same guard follow each other: the plugins change between them. */
export const runtimeChapters: readonly RuntimeChapter[] = [
  ...[messages, answers, tools, connections, processes, time],
  ...[wholeTexts, pieces, requiredPlugins],
];
