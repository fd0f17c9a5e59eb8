/** The compiler with the options that authors get: what it says about files, one line each, as the editor lists them. */
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const PROJECT = fileURLToPath(new URL('../../sdk/tsconfig.plugin.json', import.meta.url));
/** A folder of the compiler's own world, where the files are. */
const FOLDER = '/plugin/';

export interface SourceFile {
  readonly path: string;
  readonly contentText: string;
}

/** @returns `file:line:column message`, by file and place */
export function compile(files: readonly SourceFile[]): string[] {
  const project = ts.getParsedCommandLineOfConfigFile(
    PROJECT,
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail },
  );
  if (project === undefined) throw new Error(`${PROJECT} cannot be read`);
  const texts = new Map(files.map(({ path, contentText }) => [FOLDER + path, contentText]));
  const host = ts.createCompilerHost(project.options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => texts.has(path) || fileExists.call(host, path);
  host.readFile = (path) => texts.get(path) ?? readFile.call(host, path);
  const program = ts.createProgram([...project.fileNames, ...texts.keys()], project.options, host);
  return ts.getPreEmitDiagnostics(program).map(format).toSorted();
}

function format({ file, start = 0, messageText }: ts.Diagnostic): string {
  const place = file?.getLineAndCharacterOfPosition(start) ?? { line: 0, character: 0 };
  const message = ts.flattenDiagnosticMessageText(messageText, '\n').replaceAll(/\s+/g, ' ');
  return `${file?.fileName.slice(FOLDER.length)}:${place.line + 1}:${place.character + 1} ${message}`;
}

function fail({ messageText }: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
}
