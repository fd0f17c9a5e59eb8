/** The files that a build of the console depends on, as globs from its folder. A change of one makes it be built again. */
export const SOURCES = [
  '**/*.{ts,tsx,css,html,svg,json}',
  '../sdk/globals.d.ts',
  '../sdk/tsconfig.plugin.json',
  '../sdk/session/{event-stream,pause}.ts',
  '../sdk/contract/{ending-checks,limits,package-paths,version-numbers,visible-text}.ts',
  '../package-lock.json',
];
export const NOT_SOURCES = ['node_modules/**', 'dist/**', '.build-*/**'];
