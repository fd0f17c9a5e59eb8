/** Declares exports of Monaco for custom workers, which its own types lack. */
declare module 'monaco-editor/languages/features/typescript/ts.worker.js' {
  export class TypeScriptWorker {
    constructor(context: object, data: object);
    getScriptKind(fileName: string): number;
    getScriptVersion(fileName: string): string;
    /** Returns the same object until the model is disposed. */
    _getModel(fileName: string): object | null;
  }
  export const ts: { readonly ScriptKind: { readonly JSON: number } };
  export function initialize(create: (context: object, data: object) => TypeScriptWorker): void;
}
