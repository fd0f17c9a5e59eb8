/** The code editor, with what a package holds: TypeScript, JSON and Markdown. A chunk of its own, and a large one. */

import EditorWorker from 'monaco-editor/editor/editor.worker.js?worker';
import { editor, KeyCode, KeyMod, MarkerSeverity, Uri } from 'monaco-editor/editor.js';
import TypeScriptWorker from 'monaco-editor/languages/features/typescript/ts.worker.js?worker';
import 'monaco-editor/features/register.all.js';
import 'monaco-editor/languages/definitions/javascript/register.js';
import 'monaco-editor/languages/definitions/markdown/register.js';
import 'monaco-editor/languages/definitions/typescript/register.js';
import { configureTypeScript } from './typescript.ts';

// Files of our own, as the page's policy wants them; left to itself the editor makes workers out of text.
self.MonacoEnvironment = {
  getWorker: (_module, label) =>
    label === 'typescript' || label === 'javascript' ? new TypeScriptWorker() : new EditorWorker(),
};
configureTypeScript();

export { editor, KeyCode, KeyMod, MarkerSeverity, Uri };
