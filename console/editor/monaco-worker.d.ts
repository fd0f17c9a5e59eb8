/** What Monaco exports for workers of one's own, and does not declare. */
declare module 'monaco-editor/languages/features/typescript/ts.worker.js' {
  export class TypeScriptWorker {
    constructor(context: object, data: object);
    getScriptKind(fileName: string): number;
  }
  export const ts: { readonly ScriptKind: { readonly JSON: number } };
  export function initialize(create: (context: object, data: object) => TypeScriptWorker): void;
}
