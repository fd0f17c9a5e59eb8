/** Loads the Monaco editor with the languages of a package, as a separate chunk. */

import EditorWorker from 'monaco-editor/editor/editor.worker.js?worker';
import { editor, type IPosition, type IRange, KeyCode, MarkerSeverity, Uri } from 'monaco-editor/editor.js';
import 'monaco-editor/features/register.all.js';
import 'monaco-editor/languages/definitions/javascript/register.js';
import 'monaco-editor/languages/definitions/markdown/register.js';
import 'monaco-editor/languages/definitions/typescript/register.js';
import { configureTypeScript } from './typescript.ts';
import { watchWorker } from './worker-fault.ts';

// Workers from files, because the content security policy forbids Monaco's default of workers from blobs.
self.MonacoEnvironment = {
  getWorker: (_module, label) =>
    watchWorker(
      label === 'typescript' || label === 'javascript'
        ? new Worker(new URL('./typescript-worker.ts', import.meta.url), { type: 'module' })
        : new EditorWorker(),
    ),
};
configureTypeScript();

export { editor, type IPosition, type IRange, KeyCode, MarkerSeverity, Uri };
