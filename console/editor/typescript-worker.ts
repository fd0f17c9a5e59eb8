/** The worker of the TypeScript compiler. A package may import JSON files, which the editor's own worker reads as TypeScript. */
import { initialize, TypeScriptWorker, ts } from 'monaco-editor/languages/features/typescript/ts.worker.js';

class PackageCompiler extends TypeScriptWorker {
  override getScriptKind(fileName: string): number {
    return fileName.endsWith('.json') ? ts.ScriptKind.JSON : super.getScriptKind(fileName);
  }
}

self.onmessage = () => initialize((context, data) => new PackageCompiler(context, data));
