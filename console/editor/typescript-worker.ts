/** The worker of the TypeScript compiler. A package may import JSON files, which the editor's own worker reads as TypeScript. */
import { initialize, TypeScriptWorker, ts } from 'monaco-editor/languages/features/typescript/ts.worker.js';

class PackageCompiler extends TypeScriptWorker {
  readonly #modelNumbers = new WeakMap<object, number>();
  #models = 0;

  /**
   * Of this model, and not only of its file: the first version of each model is 1. The compiler would take index.ts of the package that is
   * opened for that of the package before, and a rename would replace text at the places of the other file.
   */
  override getScriptVersion(fileName: string): string {
    const version = super.getScriptVersion(fileName);
    const model = this._getModel(fileName);
    if (model === null) return version;
    const number = this.#modelNumbers.get(model) ?? ++this.#models;
    this.#modelNumbers.set(model, number);
    return `${number}.${version}`;
  }

  override getScriptKind(fileName: string): number {
    return fileName.endsWith('.json') ? ts.ScriptKind.JSON : super.getScriptKind(fileName);
  }
}

self.onmessage = () => initialize((context, data) => new PackageCompiler(context, data));
